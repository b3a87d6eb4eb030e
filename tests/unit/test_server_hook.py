"""Hooks: whatever a function of the application does wrong is a refusal, and a fact without its words."""

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from outlast.errors import HookFailed, NotAdmitted, Unauthenticated
from outlast.facts import Fact, HookTroubled
from outlast.server.hook import WITHIN, Hook, ask

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def test_what_a_hook_answers_is_the_answer() -> None:
    facts: list[Fact] = []

    async def hook() -> str:
        return "ann"

    assert await ask(Hook.AUTHENTICATE, hook, report=facts.append) == "ann"
    assert facts == []


@pytest.mark.parametrize("refusal", [NotAdmitted("no"), Unauthenticated("no"), HTTPException(403)])
async def test_a_refusal_is_an_answer_and_no_trouble(refusal: Exception) -> None:
    facts: list[Fact] = []

    async def hook() -> None:
        raise refusal

    with pytest.raises(type(refusal)) as raised:
        await ask(Hook.ADMIT, hook, report=facts.append)
    assert raised.value is refusal
    assert facts == []


@pytest.mark.attack("Z3")
@pytest.mark.behaviour("W17")
@pytest.mark.parametrize(
    "error", [ValueError("marker\n\x1b[31m"), SystemExit(), BaseExceptionGroup("marker", [OSError()]), MemoryError()]
)
async def test_a_hook_that_raises_has_not_agreed_and_its_words_go_nowhere(error: BaseException) -> None:
    facts: list[Fact] = []

    async def hook() -> None:
        raise error

    with pytest.raises(HookFailed) as failed:
        await ask(Hook.AUTHORIZE, hook, report=facts.append)
    assert facts == [HookTroubled(hook="authorize", error=type(error).__name__)]
    assert "marker" not in str(failed.value)
    assert failed.value.__cause__ is failed.value.__context__ is None  # so no traceback can print it


async def test_a_hook_that_takes_too_long_has_not_agreed() -> None:
    facts: list[Fact] = []
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(HookFailed):
        await ask(Hook.AUTHENTICATE, asyncio.Event().wait, report=facts.append)
    assert clock() - began == pytest.approx(WITHIN)
    assert facts == [HookTroubled(hook="authenticate", error="TimeoutError")]


async def test_a_cancellation_of_the_hooks_own_is_one_of_its_errors() -> None:
    facts: list[Fact] = []

    async def hook() -> None:
        inner = asyncio.ensure_future(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    with pytest.raises(HookFailed):
        await ask(Hook.ADMIT, hook, report=facts.append)
    assert facts == [HookTroubled(hook="admit", error="CancelledError")]


async def test_our_own_cancellation_passes() -> None:
    facts: list[Fact] = []
    asking: asyncio.Task[Any] = asyncio.create_task(ask(Hook.ADMIT, asyncio.Event().wait, report=facts.append))
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()
    assert facts == []
