"""The doors of the HTTP interface: which call is answered by what, and who is let in before it is.

There are four kinds, and a door must be one of them: of a `RunDoor` the owner is known and its action is allowed
before anything else happens; a `KnownDoor` and an `OpenDoor` show nothing of anybody's runs, the one to those alone
whose identity is known. A `SessionDoor` leads to the other doors: who came in by it asks at each of them as if there
were none. Only `routes` makes routes of doors, and every one of them goes through the `Entrance`; there is no way past
it (A5).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, assert_never

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import OutlastError, StoreError
from outlast.server.identity import Action
from outlast.server.readers.poll import Waiting
from outlast.server.routes.entrance import Entrance
from outlast.server.routes.problem import is_passing, problem, refusal
from outlast.server.seats import Left
from outlast.server.session.handshake import Handshake
from outlast.wire.session import Ask


def _no_stream(_request: Request) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDoor:
    """A call about runs: it is answered for an owner, and sees that owner's runs alone.

    `when_busy` returns what a client that follows a stream is told instead of a 503; None for any other.
    """

    method: str
    path: str
    action: Action
    answer: Callable[[Request, str], Awaitable[ASGIApp | Waiting]]
    when_busy: Callable[[Request], ASGIApp | None] = _no_stream


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDoor:
    """A call that shows nothing of anybody: the page, the health of the node. The peer is checked all the same."""

    method: str
    path: str
    answer: Callable[[Request], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDoor:
    """A call that shows nothing of anybody's runs, and still is for those alone who may come in at all."""

    method: str
    path: str
    answer: Callable[[Request], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDoor:
    """A WebSocket for those who may come in at all, and for no page of another origin.

    `begin` returns what serves it, from the scope of its handshake, for an owner who may stay for as long as is left.
    """

    path: str
    begin: Callable[[Scope, str, Left | None], ASGIApp]


Door: TypeAlias = RunDoor | KnownDoor | OpenDoor


class Resource:
    """What stands at one path, as ASGI: lets the request in, or answers with a problem."""

    def __init__(self, entrance: Entrance, doors: Iterable[Door]) -> None:
        self.doors = {door.method: door for door in doors}
        self._entrance = entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        send = self._entrance.origins.tell(request, send)
        try:
            answer = await self._answer(request)
        except (OutlastError, HTTPException) as error:
            if isinstance(error, StoreError):
                self._entrance.trouble.met(error)
            answer = self._when_busy(request, error) or problem(error)
        except Exception as error:
            await problem(error)(scope, receive, send)
            raise  # for the server's log
        del request  # and with it all that was read from it: a stream may stay for hours
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        door = self._door(request)
        match door:
            case RunDoor(action=action, answer=answer):
                visitor = await self._entrance.admit(request, action, path=door.path)
                seated = await self._entrance.seat(await answer(request, visitor.owner), visitor)
                self._entrance.trouble.over()
                return seated
            case KnownDoor(answer=answer):
                await self._entrance.identify(request)
                return await answer(request)
            case OpenDoor(answer=answer):
                self._entrance.check_peer(request)
                return await answer(request)
            case None:
                if (allowed := self._entrance.origins.preflight(request, self.doors)) is not None:
                    return allowed
                allow = {"allow": ", ".join(sorted(self.doors))}
                raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers=allow)
            case _:
                assert_never(door)

    def _door(self, request: Request) -> Door | None:
        return self.doors.get("GET" if request.method == "HEAD" else request.method)

    def _when_busy(self, request: Request, error: Exception) -> ASGIApp | None:
        door = self._door(request)
        return door.when_busy(request) if isinstance(door, RunDoor) and is_passing(error) else None


class Gate:
    """What stands at the path of a session, as ASGI: begins it, or refuses the handshake with a problem."""

    def __init__(self, entrance: Entrance, door: SessionDoor) -> None:
        self.door = door
        self._entrance = entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            identity = await self._entrance.welcome(Request(_as_request(scope)))
            session = self.door.begin(scope, identity.owner, self._entrance.left(identity))
        except (OutlastError, HTTPException) as error:
            await refusal(error, scope)(scope, receive, send)
            return
        except Exception as error:
            await refusal(error, scope)(scope, receive, send)
            raise  # for the server's log
        await session(scope, receive, send)


def _as_request(handshake: Scope) -> Scope:
    """Return the request of HTTP that a handshake is, for those who decide about requests."""
    return Handshake(handshake).request(Ask(exchange=1, method="GET", path="/session"))


def routes(entrance: Entrance, doors: Iterable[Door | SessionDoor]) -> list[BaseRoute]:
    """Return one route per path, in the order of their first doors, and one for each session."""
    paths: dict[str, list[Door]] = {}
    sessions: list[BaseRoute] = []
    for door in doors:
        if isinstance(door, SessionDoor):
            sessions.append(WebSocketRoute(door.path, Gate(entrance, door)))
        else:
            paths.setdefault(door.path, []).append(door)
    return [*(Route(path, Resource(entrance, at_path)) for path, at_path in paths.items()), *sessions]
