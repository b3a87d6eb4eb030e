"""A place: how far an application has taken a run, as its client keeps it from one process to the next."""

from dataclasses import dataclass

from outlast.log.cursor import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a run, or a view of some `types` of its events, was taken; `over` once its terminal event was.

    Each view has a place of its own: where one has arrived, another may have more to take. Source: R3.
    """

    run: str
    owner: str | None
    types: str | None
    cursor: Cursor
    over: bool = False
