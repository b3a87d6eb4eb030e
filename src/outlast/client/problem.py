"""Turns a refusal on the wire, a problem document, back into the error that its `code` names."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, cast

from outlast.errors import Refusal, ThreadBusy

MAX_PROBLEM: Final = 64 * 1024
"""Bytes of a refusal's body that are looked at; our own have a few hundred."""
MAX_SENTENCE: Final = 400
"""Characters of a server's sentence that are passed on."""
NOTHING_THERE: Final = "not_found"
"""The code of a path at which Outlast has nothing."""
ADDRESS: Final = (
    "the address is where its routes are mounted, as in `http://127.0.0.1:8000/agents`, and goes no further."
)


def refusal(status: int, body: bytes) -> Refusal:
    """Return the error that a refused request means.

    A code this version does not know, or a body that is no problem document, becomes a plain `Refusal`. The
    server's sentence is passed on without line ends and control characters. Source: the native wire.
    """
    document = _document(body)
    code, sentence = document.get("code"), _sentence(document)
    if code == NOTHING_THERE:
        return Refusal(f"This server has nothing of Outlast at that path: {ADDRESS}")
    kind = _BY_CODE.get(code, Refusal) if isinstance(code, str) else Refusal
    if kind is ThreadBusy:
        return ThreadBusy(sentence or "The thread already has a live run.", live=str(document.get("live", "")))
    if sentence or kind is not Refusal:
        return kind(sentence or f"The server refused with {code}.")
    return Refusal(f"The server answered {_name(status)}, and not in the way of Outlast: {ADDRESS}")


def is_ours(body: bytes) -> bool:
    """Say whether a refusal is said as Outlast says it."""
    return isinstance(_document(body).get("code"), str)


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _sentence(document: dict[str, Any]) -> str:
    if not isinstance(document.get("code"), str):
        return ""  # the words of something else between us and the server
    said = document.get("detail") or document.get("title") or ""
    return "".join(char for char in str(said) if char.isprintable())[:MAX_SENTENCE]


def _name(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _kinds(kind: type[Refusal]) -> Iterator[type[Refusal]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


_BY_CODE: Final = {kind.code: kind for kind in _kinds(Refusal)}
