"""Who we say we are is asked for at every request, one question at a time, and once more when it was refused."""

import asyncio

import httpx2
import pytest

from outlast.client.credentials import Credentials, Headers
from outlast.client.http import direct
from outlast.errors import InputInvalid
from outlast.testing.peer import Answer, ScriptedPeer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_fixed_headers_are_what_they_are_and_none_speaks_for_nobody() -> None:
    assert await Credentials({"authorization": "a"}).headers() == {"authorization": "a"}
    assert await Credentials(None).headers() == {}
    assert [Credentials(given).is_account for given in (None, {}, {"authorization": "a"}, dict)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.behaviour("N4")
async def test_those_who_ask_at_the_same_time_share_one_question_and_its_answer() -> None:
    asked = 0

    async def provider() -> Headers:
        nonlocal asked
        asked += 1
        await asyncio.sleep(1)
        return {"authorization": str(asked)}

    credentials = Credentials(provider)
    assert await asyncio.gather(*(credentials.headers() for _ in range(3))) == [{"authorization": "1"}] * 3
    assert await credentials.headers() == {"authorization": "2"}


@pytest.mark.behaviour("N4")
async def test_an_error_of_the_provider_is_told_to_all_who_asked_and_the_next_one_asks_anew() -> None:
    answers = iter([ValueError("no token"), {"authorization": "late"}])

    def provider() -> Headers:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    credentials = Credentials(provider)
    told = await asyncio.gather(credentials.headers(), credentials.headers(), return_exceptions=True)
    assert [type(each) for each in told] == [ValueError, ValueError]
    assert await credentials.headers() == {"authorization": "late"}


@pytest.mark.behaviour("K8")
async def test_one_who_gives_up_leaves_the_question_to_the_others_and_the_last_one_ends_it() -> None:
    ended: list[str] = []

    async def provider() -> Headers:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ended.append("cut")
            raise
        return {"authorization": "a"}

    credentials = Credentials(provider)
    first, second = (asyncio.create_task(credentials.headers()) for _ in range(2))
    await asyncio.sleep(1)
    first.cancel()
    assert await second == {"authorization": "a"}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await credentials.headers()
    await asyncio.sleep(0)
    assert ended == ["cut"]


async def test_a_refused_answer_is_asked_for_once_more_with_what_the_provider_says_then() -> None:
    tokens = iter("abc")
    sent: list[str] = []

    async def ask(headers: Headers) -> httpx2.Response:
        sent.append(headers["authorization"])
        return httpx2.Response(401)

    response = await Credentials(lambda: {"authorization": next(tokens)}).send(ask)
    assert (response.status_code, sent) == (401, ["a", "b"])
    sent.clear()
    await Credentials({"authorization": "fixed"}).send(ask)
    assert sent == ["fixed"]


@pytest.mark.parametrize("value", ["\u2603", "a\nb", "a\0b"], ids=["cannot be encoded", "a line break", "a zero"])
async def test_headers_that_cannot_be_sent_are_the_callers_mistake(value: str) -> None:
    async with ScriptedPeer([Answer()]) as peer, direct() as client:

        async def ask(headers: Headers) -> httpx2.Response:
            return await client.send(client.build_request("GET", peer.url, headers=headers))

        credentials = Credentials(lambda: {"authorization": value})
        with pytest.raises(InputInvalid, match="headers"):
            await credentials.send(ask)
        assert credentials.newest == {}, "what was never sent is not at hand for others"
        assert peer.asked == []
