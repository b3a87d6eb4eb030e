"""What a request for a log asks for: from where, what of it, and in which kind of answer."""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from starlette.requests import Request

from outlast.errors import CursorInvalid, InputInvalid
from outlast.log.cursor import Cursor
from outlast.log.event import is_type
from outlast.server.readers.view import WHOLE, View

MOST_TYPES: Final = 64
"""Types a view may name: more than any front end tells apart."""

_QUALITY: Final = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE | re.ASCII)


class Kind(StrEnum):
    """The kinds of answer there are, dearest first: what a client names twice over, it gets as the first of these."""

    STREAM = "text/event-stream"
    LINES = "application/x-ndjson"
    PAGE = "application/json"


def kind_of(request: Request) -> Kind:
    """Return the kind of answer the request likes best among those it names; the page where it names none.

    A wildcard names nothing, so `*/*` gets the page, and HEAD never a stream. Source: RFC 9110, 12.5.1.
    """
    weights: dict[str, float] = {}
    for accept in request.headers.getlist("accept"):
        for part in accept.split(","):
            kind, *parameters = (word.strip().lower() for word in part.split(";"))
            weights[kind] = max(weights.get(kind, 0.0), _weight(parameters))
    named = [kind for kind in Kind if weights.get(kind, 0.0) > 0 and not _is_headed(request, kind)]
    return max(named, key=lambda kind: weights[kind], default=Kind.PAGE)


def address_of(request: Request, path: str) -> str:
    """Return the address of one of our paths, below where the request found the routes.

    What a host mounts us under may have parameters, and hold whatever a client says: a header takes no more than ASCII.
    """
    return quote(request.scope.get("root_path", "")) + path


def wants_stream(request: Request) -> bool:
    """Say whether the request likes an event stream best."""
    return kind_of(request) is Kind.STREAM


def cursor_of(request: Request) -> Cursor:
    """Return the cursor of a request; `Last-Event-ID` beats `?after=`, since an EventSource repeats its URL.

    Raises `CursorInvalid`, also where one of them names two places: either may be the one behind which all was taken.
    """
    told = {text for text in request.headers.getlist("last-event-id") if text}
    places = told or set(request.query_params.getlist("after"))
    if len(places) > 1:
        raise CursorInvalid("The request names two places of the log: send the cursor of the event taken last, once.")
    return Cursor.parse(next(iter(places), ""))


def view_of(request: Request) -> View:
    """Return what `?types=` and `?envelope=` ask to see. Raises `InputInvalid`."""
    asked, envelope = request.query_params.get("types"), request.query_params.get("envelope", "0")
    if envelope not in {"0", "1"}:
        raise InputInvalid("`envelope` is 0 or 1.")
    if asked is None:
        return View(envelope=True) if envelope == "1" else WHOLE
    types = asked.split(",", MOST_TYPES)
    if len(types) > MOST_TYPES or not all(is_type(type) for type in types):
        raise InputInvalid(
            f"`types` is 1 to {MOST_TYPES} event types joined by commas, such as types=text,run.restarted."
        )
    return View(types=frozenset(types), envelope=envelope == "1")


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            quality = _QUALITY.fullmatch(parameter)
            return float(quality[1]) if quality else 0.0
    return 1.0


def _is_headed(request: Request, kind: Kind) -> bool:
    return request.method == "HEAD" and kind is Kind.STREAM
