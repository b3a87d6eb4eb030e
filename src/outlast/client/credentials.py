"""Who we say we are: asked for at every attempt, one question at a time, and once more when it was refused."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

import httpx2

from outlast.client.transport import Lost
from outlast.errors import InputInvalid
from outlast.supervision.phase import Trouble

Headers: TypeAlias = Mapping[str, str]
HeadersOf: TypeAlias = Callable[[], Headers | Awaitable[Headers]]


@dataclass(slots=True)
class _Question:
    """The provider while it is asked, and how many wait for its answer."""

    asking: asyncio.Task[Headers]
    waiting: int = 0


class Credentials:
    """The headers of every request to one server: fixed, or from a provider, which may be sync or async.

    Those who ask while the provider is being asked share its answer, and its error (N4). When the last of them has
    given up, so has the provider.
    """

    def __init__(self, given: Headers | HeadersOf | None) -> None:
        self._given = given
        self._question: _Question | None = None
        self.newest: Headers = {} if given is None or callable(given) else given
        """The headers of the newest request that was sent, at hand without a question."""

    @property
    def is_account(self) -> bool:
        """Whether requests speak for somebody."""
        return bool(self._given)

    async def headers(self) -> Headers:
        """Return the headers of the next request. Raises whatever the provider raises."""
        if not callable(self._given):
            return self._given or {}
        if self._question is None:
            self._question = _Question(asyncio.create_task(_asked(self._given), name="ask for credentials"))
        return await self._answer(self._question)

    async def _answer(self, question: _Question) -> Headers:
        question.waiting += 1
        try:
            await asyncio.wait([question.asking])  # without a deadline: the attempt, or the request, has one
        finally:
            question.waiting -= 1
            if question.asking.done() or not question.waiting:
                question.asking.cancel()
                question.asking.add_done_callback(_seen)
                if self._question is question:
                    self._question = None  # who comes now asks anew, also while what was given up still winds up
        if question.asking.cancelled():
            raise Lost(Trouble.UNEXPECTED)  # by the provider's own doing: nobody who waits here was
        return question.asking.result()

    async def send(self, ask: Callable[[Headers], Awaitable[httpx2.Response]]) -> httpx2.Response:
        """Return the answer to a request; one refused for its credentials is sent once more with those there are then.

        Raises `InputInvalid` for headers that cannot be sent, and what the provider and the request raise.
        """
        try:
            response = await self._send(ask)
            if response.status_code == HTTPStatus.UNAUTHORIZED and callable(self._given):  # it may just have run out
                await response.aclose()
                response = await self._send(ask)
        except (httpx2.LocalProtocolError, UnicodeEncodeError) as error:
            raise InputInvalid("The headers cannot be sent as they are.") from error
        return response

    async def _send(self, ask: Callable[[Headers], Awaitable[httpx2.Response]]) -> httpx2.Response:
        headers = await self.headers()
        response = await ask(headers)
        self.newest = headers
        return response


async def _asked(provider: HeadersOf) -> Headers:
    given = provider()
    return await given if inspect.isawaitable(given) else given


def _seen(asking: asyncio.Task[Headers]) -> None:
    """Look at the provider's error, so that nobody else tells of it: it may hold what it was about."""
    if not asking.cancelled():
        asking.exception()
