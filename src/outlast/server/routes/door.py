"""The doors of the HTTP interface: which call is answered by what, and who is let in before it is.

There are two kinds, and a door must be one of them: of a `RunDoor` the owner is known before anything else happens,
an `OpenDoor` shows nothing of anybody's runs. Only `routes` makes routes of doors, and every one of them asks
`Access` first; there is no way past it (A5).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, assert_never

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.errors import OutlastError
from outlast.server.access import Access
from outlast.server.routes.problem import problem


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDoor:
    """A call about runs: it is answered for an owner, and sees that owner's runs alone."""

    method: str
    path: str
    answer: Callable[[Request, str], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDoor:
    """A call that shows nothing of anybody: the page, the health of the node. The peer is checked all the same."""

    method: str
    path: str
    answer: Callable[[Request], Awaitable[ASGIApp]]


Door: TypeAlias = RunDoor | OpenDoor


class Resource:
    """What stands at one path, as ASGI: lets the request in, or answers with a problem."""

    def __init__(self, access: Access, doors: Iterable[Door]) -> None:
        self.doors = {door.method: door for door in doors}
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except (OutlastError, HTTPException) as error:
            answer = problem(error)
        except Exception as error:
            await problem(error)(scope, receive, send)
            raise  # for the server's log
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        method = "GET" if request.method == "HEAD" else request.method
        door = self.doors.get(method)
        match door:
            case RunDoor(answer=answer):
                return await answer(request, await self._access.owner(request))
            case OpenDoor(answer=answer):
                self._access.check_peer(request)
                return await answer(request)
            case None:
                allow = {"allow": ", ".join(sorted(self.doors))}
                raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers=allow)
            case _:
                assert_never(door)


def routes(access: Access, doors: Iterable[Door]) -> list[Route]:
    """Return one route per path, in the order of their first doors."""
    paths: dict[str, list[Door]] = {}
    for door in doors:
        paths.setdefault(door.path, []).append(door)
    return [Route(path, Resource(access, at_path)) for path, at_path in paths.items()]
