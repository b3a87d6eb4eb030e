"""Errors as problem documents (RFC 9457): which status each error has, and the sentence it comes with.

A document repeats nothing of the request. What an error of ours says is a sentence of ours; of any other error, and
of a store's, only the kind is told.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from outlast import errors
from outlast.log.event import JSON, encode_json
from outlast.server.routes.answer import SAFE, answer

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = "2"
"""Seconds, with every 503 and 429: most failures, and most deploys of one node, are over by then."""

STATUSES: Final[Mapping[type[errors.OutlastError], HTTPStatus]] = {
    errors.InputInvalid: HTTPStatus.BAD_REQUEST,
    errors.CursorInvalid: HTTPStatus.BAD_REQUEST,
    errors.TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.UnknownWorker: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.RunNotFound: HTTPStatus.NOT_FOUND,
    errors.RunGone: HTTPStatus.GONE,
    errors.RunLive: HTTPStatus.CONFLICT,
    errors.IdConflict: HTTPStatus.CONFLICT,
    errors.ThreadBusy: HTTPStatus.CONFLICT,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.NotAdmitted: HTTPStatus.FORBIDDEN,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.PeerRefused: HTTPStatus.FORBIDDEN,
    errors.TooMany: HTTPStatus.TOO_MANY_REQUESTS,
    errors.Capacity: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.HookFailed: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotStarted: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.Draining: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""Every refusal has its status; an error that is not here is our own fault: 500."""

_DENIAL: Final = "websocket.http.response"  # the ASGI extension by which a handshake is refused with a response
_PASSING: Final = (errors.StoreUnavailable, errors.HookFailed)

_FIXED: Final[Mapping[type[errors.OutlastError], str]] = {
    # One body for a run that never was, is another owner's, or has an impossible id (A5).
    errors.RunNotFound: errors.NO_SUCH_RUN,
    # What a store says of itself names files and is for its operator; the code tells what kind of trouble it is.
    errors.StoreUnavailable: "The store does not answer; try again in a moment.",
    errors.StoreError: "The store failed to answer this.",
}
BARE: Final[Mapping[HTTPStatus, tuple[str, str]]] = {
    HTTPStatus.NOT_FOUND: ("not_found", "There is nothing at this path."),
    HTTPStatus.METHOD_NOT_ALLOWED: ("method_not_allowed", "This path does not know the method."),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (errors.InputInvalid.code, "The body of this call is application/json."),
    HTTPStatus.UNAUTHORIZED: (errors.Unauthenticated.code, "The request carries no acceptable credentials."),
    HTTPStatus.FORBIDDEN: (errors.NotAdmitted.code, "This is not allowed."),
}
"""What a bare status means, from our own routing or from an `authenticate` that raises."""


def problem(error: Exception) -> Response:
    """Return the response that tells `error`."""
    match error:
        case errors.ThreadBusy(live=live):
            return _document(HTTPStatus.CONFLICT, error.code, str(error), live=live)
        case errors.OutlastError():
            return _ours(error)
        case HTTPException():
            status = HTTPStatus(error.status_code)
            code, detail = BARE.get(status, (errors.Refusal.code, "The request was refused."))
            return _document(status, code, detail, headers=error.headers)
        case _:
            return _document(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The server failed to answer this.")


def is_passing(error: Exception) -> bool:
    """Say whether `error` is about this moment and not about the request: whoever comes again may be answered."""
    return isinstance(error, _PASSING)


def refusal(error: Exception, scope: Scope) -> ASGIApp:
    """Return what tells `error` to whoever asks; to a handshake as a bare 403, where its server can say no more."""
    if scope["type"] == "websocket" and _DENIAL not in (scope.get("extensions") or {}):
        return WebSocketClose()
    return problem(error)


async def unknown(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, as ASGI, what no route knows."""
    await refusal(HTTPException(HTTPStatus.NOT_FOUND), scope)(scope, receive, send)


def _ours(error: errors.OutlastError) -> Response:
    kind = next((kind for kind in type(error).__mro__ if kind in STATUSES), None)
    if kind is None:
        return _document(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The server failed to answer this.")
    status = STATUSES[kind]
    waits = status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
    headers = {"retry-after": RETRY_AFTER} if waits else None
    return _document(status, error.code, _FIXED.get(kind, str(error)), headers=headers)


def _document(
    status: HTTPStatus, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: JSON
) -> Response:
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "code": code,
        "detail": detail,
        **more,
    }
    # An application's own exception brings headers of its own; none of them makes a problem one that is kept.
    safe = {**(headers or {}), **SAFE}
    return answer(encode_json(document), status=status, headers=safe, media_type=MEDIA_TYPE)
