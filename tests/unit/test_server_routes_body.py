import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from outlast.errors import InputInvalid, TooLarge
from outlast.server.routes.body import BYTES, DEPTH, WITHIN, number, read_object

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


def request(*chunks: bytes, headers: dict[str, str] | None = None, query: bytes = b"", ends: str = "whole") -> Request:
    said = {"content-type": "application/json", **(headers or {})}
    arriving = _arrive(chunks, ends)

    async def receive() -> Any:
        return await anext(arriving)

    return Request(
        {
            "type": "http",
            "method": "POST",
            "path": "/",
            "query_string": query,
            "headers": [(name.encode(), value.encode()) for name, value in said.items()],
        },
        receive,
    )


async def _arrive(chunks: Sequence[bytes], ends: str) -> AsyncIterator[Any]:
    for chunk in chunks:
        yield {"type": "http.request", "body": chunk, "more_body": True}
    if ends == "silence":
        await asyncio.get_running_loop().create_future()
    if ends == "disconnect":
        yield {"type": "http.disconnect"}
    yield {"type": "http.request", "body": b"", "more_body": False}


def nested(depth: int) -> bytes:
    """An object with arrays inside, so many levels in all."""
    return b'{"x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


async def test_an_object_is_read_however_it_is_cut() -> None:
    body = json.dumps({"input": "héllo 👩‍👩‍👧"}, ensure_ascii=False).encode()
    assert await read_object(request(*(body[at : at + 1] for at in range(len(body))))) == json.loads(body)


async def test_an_absent_body_is_an_empty_object_of_any_kind() -> None:
    assert await read_object(request(headers={"content-type": "text/plain"})) == {}


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/json;x=y"])
async def test_json_is_json_with_any_parameters(kind: str) -> None:
    assert await read_object(request(b'{"a":1}', headers={"content-type": kind})) == {"a": 1}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
async def test_a_body_of_another_kind_is_refused_as_that(kind: str) -> None:
    with pytest.raises(HTTPException) as refused:
        await read_object(request(b'{"a":1}', headers={"content-type": kind}))
    assert refused.value.status_code == 415


@pytest.mark.attack("Z9")
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nul",
        b"[1]",
        b'"x"',
        b"\xff",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":' + b"9" * 5000 + b"}",
        '{"a":1}'.encode("utf-16"),
        nested(DEPTH + 1),
        nested(100_000),
        b'{"a":' * 200_000,
    ],
    ids=range(13),
)
async def test_what_is_no_plain_json_object_is_refused_without_repeating_it(body: bytes) -> None:
    with pytest.raises(InputInvalid) as refused:
        await read_object(request(body))
    assert len(str(refused.value)) < 100


async def test_the_deepest_body_allowed_is_read() -> None:
    assert await read_object(request(nested(DEPTH)))


@pytest.mark.attack("Z9")
async def test_a_body_at_the_limit_is_read_and_one_beyond_it_is_not() -> None:
    padding = BYTES - len(b'{"a":""}')
    assert await read_object(request(b'{"a":"', b"x" * padding, b'"}'))
    with pytest.raises(TooLarge):
        await read_object(request(b'{"a":"', b"x" * padding, b'x"}'))


@pytest.mark.attack("Z9")
@pytest.mark.parametrize("told", [str(BYTES + 1), "9" * 5000])
async def test_a_body_that_tells_its_size_is_refused_unread(told: str) -> None:
    unread = request(headers={"content-length": told}, ends="silence")
    with pytest.raises(TooLarge):
        await read_object(unread)
    assert asyncio.get_running_loop().time() == 0


@pytest.mark.attack("Z9")
async def test_a_body_that_never_ends_is_cut_at_the_limit() -> None:
    taken = 0

    async def receive() -> Any:
        nonlocal taken
        taken += 65536
        return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    endless = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    with pytest.raises(TooLarge):
        await read_object(endless)
    assert taken <= BYTES + 65536


@pytest.mark.attack("Z9")
async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_the_deadline() -> None:
    with pytest.raises(InputInvalid):
        await read_object(request(b"{", ends="silence"))
    assert asyncio.get_running_loop().time() == WITHIN


async def test_a_body_that_breaks_off_is_refused() -> None:
    with pytest.raises(InputInvalid):
        await read_object(request(b"{", ends="disconnect"))


@pytest.mark.parametrize(("query", "found"), [(b"", 50), (b"limit=1", 1), (b"limit=200", 200), (b"limit=007", 7)])
async def test_a_number_is_read_from_the_query(query: bytes, found: int) -> None:
    assert number(request(query=query), "limit", default=50, most=200) == found


@pytest.mark.parametrize("text", ["0", "201", "-1", "1.5", "x", "", "1e2", "²", "9" * 5000, "+1", " 1"])
async def test_a_number_that_is_none_or_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InputInvalid, match=r"`limit` is a whole number from 1 to 200\."):
        number(request(query=f"limit={quote(text)}".encode()), "limit", default=50, most=200)
