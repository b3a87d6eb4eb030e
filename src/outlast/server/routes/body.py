"""Reads what a request brings, within limits: its JSON body and the numbers in its query."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NoReturn, cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from outlast.errors import InputInvalid, TooLarge
from outlast.log.event import JSON, JSON_TYPE

BYTES: Final = 1024 * 1024
"""A long conversation with its tool results; files have other ways in."""
DEPTH: Final = 64
"""Arrays and objects inside each other: far more than anyone writes, far less than any parser bears."""
WITHIN: Final = 25.0
"""Seconds for the whole body: a megabyte over a bad line. `outlast serve` cuts the connection after 30."""


async def read_object(request: Request) -> Mapping[str, JSON]:
    """Return the JSON object in the body; an absent body is an empty one.

    Raises `TooLarge`, `InputInvalid`, and HTTPException 415 for a body of another kind.
    """
    body = await _read(request)
    if not body:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    try:
        said = json.loads(body.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise InputInvalid("The body is not JSON in UTF-8, or is nested too deeply.") from error
    if not isinstance(said, dict):
        raise InputInvalid("The body of this call is a JSON object.")
    document = cast("dict[str, JSON]", said)
    if _is_deep(document):
        raise InputInvalid(f"Arrays and objects in the body may lie at most {DEPTH} deep in each other.")
    return document


def number(request: Request, name: str, *, default: int, most: int) -> int:
    """Return a whole number of the query, from 1 to `most`. Raises `InputInvalid`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise InputInvalid(f"`{name}` is a whole number from 1 to {most}.")
    return int(text)


async def _read(request: Request) -> bytes:
    told = request.headers.get("content-length", "")
    if told.isascii() and told.isdigit() and (len(told) > len(str(BYTES)) or int(told) > BYTES):
        raise _too_large()
    try:
        async with asyncio.timeout(WITHIN):
            return await _collect(request)
    except TimeoutError:
        raise InputInvalid(f"The body did not arrive within {WITHIN:g} seconds.") from None
    except ClientDisconnect:
        raise InputInvalid("The body broke off.") from None


async def _collect(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BYTES:  # also of one that never ends: what follows is not read
            raise _too_large()
    return bytes(body)


def _too_large() -> TooLarge:
    return TooLarge(f"A body may have at most {BYTES} bytes.")


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and infinities are not JSON")


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return any(isinstance(value, dict | list) for value in level)


def _inside(value: Any) -> Iterator[object]:  # noqa: ANN401 - whatever JSON holds
    match value:
        case dict():
            yield from value.values()
        case list():
            yield from value
        case _:
            pass
