"""What every answer of the interface that is neither a stream nor a file has in common.

It speaks of one moment, so no cache keeps it; and no browser takes it for anything but what it says it is.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from outlast.log.event import JSON_TYPE

SAFE: Final[Mapping[str, str]] = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def answer(
    body: bytes, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None, media_type: str = JSON_TYPE
) -> Response:
    """Return `body`, JSON unless told otherwise; `headers` beat the ones that every answer has."""
    return Response(body, status, headers={**SAFE, **(headers or {})}, media_type=media_type)


def knows(request: Request, tag: str) -> bool:
    """Say whether the request has the answer that `tag` names already (RFC 9110, 13.1.2)."""
    tags = {part.strip() for given in request.headers.getlist("if-none-match") for part in given.split(",")}
    return bool({tag, tag.removeprefix("W/"), f"W/{tag}", "*"} & tags)
