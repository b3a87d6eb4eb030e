"""Runs over HTTP: started, listed, looked up, stopped, erased."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from outlast.errors import InputInvalid
from outlast.log.cursor import origin
from outlast.log.event import JSON, encode_json
from outlast.log.limits import Usage
from outlast.recovery import RecoveryPolicy
from outlast.run import Status, is_id
from outlast.server.identity import Action
from outlast.server.intake import Intake
from outlast.server.routes.answer import answer, knows
from outlast.server.routes.asked import address_of, cursor_of, view_of, wants_stream
from outlast.server.routes.body import number, read_object
from outlast.server.routes.door import Door, RunDoor
from outlast.server.routes.events import Events
from outlast.stores.base import Head, Loaded, Started, StopAnswer, Store
from outlast.wire.lineage import lineage_document
from outlast.wire.status import etag, outcome_document, run_document, status_document
from outlast.wire.trace import HEADER

PAGE: Final = 50
"""Runs of a list, unless the request says otherwise."""
LARGEST_PAGE: Final = 200
"""Runs: each is a status document of a kilobyte, so a page stays what a phone takes."""
LONGEST_REASON: Final = 1000
"""Characters a person may give as the reason of a stop: it stands in the row and in the log."""

_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    "worker": (str,),
    "input": (object,),
    "id": (str, type(None)),
    "thread": (str, type(None)),
    "metadata": (dict, type(None)),
}
_REQUIRED: Final = ("worker", "input")


class Runs:
    """Answers `/runs`, `/runs/{id}`, `/runs/{id}/lineage` and `/runs/{id}/stop`."""

    def __init__(self, intake: Intake, store: Store, events: Events, policy: RecoveryPolicy) -> None:
        self._intake = intake
        self._store = store
        self._events = events
        self._policy = policy

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [
            RunDoor(method="POST", path="/runs", action=Action.START, answer=self.start),
            RunDoor(method="GET", path="/runs", action=Action.LIST, answer=self.list),
            RunDoor(method="GET", path="/runs/{id}", action=Action.READ, answer=self.look),
            RunDoor(method="DELETE", path="/runs/{id}", action=Action.ERASE, answer=self.erase),
            RunDoor(method="GET", path="/runs/{id}/lineage", action=Action.READ, answer=self.lineage),
            RunDoor(method="POST", path="/runs/{id}/stop", action=Action.STOP, answer=self.stop),
        ]

    async def start(self, request: Request, owner: str) -> ASGIApp:
        """Start a run: 201 for a new one, 200 for the one that is there; streamed at once where that is accepted."""
        for check in (cursor_of, view_of):
            check(request)  # refused before anything is started
        said = await read_object(request)
        _check(said, _FIELDS)
        if any(name not in said for name in _REQUIRED):
            raise InputInvalid("A start names its `worker` and its `input`.")
        started = await self._intake.start(
            owner=owner,
            worker=cast("str", said["worker"]),
            input=said["input"],
            id=cast("str | None", said.get("id")),
            thread=cast("str | None", said.get("thread")),
            metadata=cast("Mapping[str, JSON] | None", said.get("metadata")),
            traceparent=_trace(request),
        )
        status = HTTPStatus.CREATED if started.created else HTTPStatus.OK
        whose = f"?{urlencode({'owner': owner})}" if "owner" in request.query_params else ""
        headers = {
            "location": address_of(request, f"/runs/{started.run.id}{whose}"),
            "outlast-run": started.run.id,
        }
        if wants_stream(request):
            raw = tuple((name.encode(), value.encode()) for name, value in headers.items())
            return await self._events.start(request, started.run, status=status, headers=raw)
        return answer(encode_json(await self._document(started)), status=status, headers=headers)

    async def list(self, request: Request, owner: str) -> ASGIApp:
        """List the owner's runs, newest first, each with the head of its log."""
        limit = number(request, "limit", default=PAGE, most=LARGEST_PAGE)
        after = request.query_params.get("after")
        if after is not None and not is_id(after):
            raise InputInvalid("`after` is the id of a run.")
        thread = request.query_params.get("thread")
        if thread is not None and not is_id(thread):
            raise InputInvalid("`thread` is the id of a thread.")
        found = await self._intake.list(owner=owner, status=_status(request), thread=thread, before=after, limit=limit)
        heads = await self._store.logs.heads([each.run.log for each in found])
        documents = [
            self._run_document(each) | {"head": str(heads[each.run.log])}
            for each in found
            if each.run.log in heads  # or it has just gone
        ]
        return answer(encode_json({"runs": documents, "next": found[-1].run.id if len(found) == limit else None}))

    async def look(self, request: Request, owner: str) -> ASGIApp:
        """Tell a run's status document, or 304 when it says nothing new."""
        loaded = await self._intake.load(owner=owner, id=request.path_params["id"])
        document = await self._status_document(loaded)
        tag = etag(document)
        headers = {"etag": tag, "cache-control": "no-cache"}
        if knows(request, tag):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return answer(encode_json(document), headers=headers)

    async def lineage(self, request: Request, owner: str) -> ASGIApp:
        """Tell who held a run: one entry per claim, and per settling without a controller."""
        run = (await self._intake.load(owner=owner, id=request.path_params["id"])).run
        lineage = await self._store.runs.lineage(owner, run.id)
        return answer(encode_json(lineage_document(run, lineage)))

    async def stop(self, request: Request, owner: str) -> ASGIApp:
        """Stop a run: 202 when the intent is durable, 200 when the run has its outcome now or had it before."""
        said = await read_object(request)
        _check(said, {"reason": (str, type(None))})
        reason = cast("str | None", said.get("reason"))
        if reason is not None and len(reason) > LONGEST_REASON:
            raise InputInvalid(f"A reason has at most {LONGEST_REASON} characters.")
        stopped = await self._intake.stop(owner=owner, id=request.path_params["id"], reason=reason)
        run = stopped.run
        document: dict[str, JSON] = {
            "answer": stopped.answer.value,
            "status": None if run is None else run.status.value,
            "outcome": None if run is None or run.outcome is None else outcome_document(run.outcome),
        }
        accepted = stopped.answer is StopAnswer.ACCEPTED
        return answer(encode_json(document), status=HTTPStatus.ACCEPTED if accepted else HTTPStatus.OK)

    async def erase(self, request: Request, owner: str) -> ASGIApp:
        """Erase a run that has ended, and its log: 204; 409 while it is live, 410 once it is gone."""
        await self._intake.erase(owner=owner, id=request.path_params["id"])
        return Response(status_code=HTTPStatus.NO_CONTENT, headers={"cache-control": "no-store"})

    async def _document(self, started: Started) -> dict[str, JSON]:
        run = started.run
        if started.created and run.status is Status.QUEUED:
            # Its log is empty and its row just written: nothing is left to be asked that could fail after the fact.
            log = Head(
                cursor=origin(run.log), first=1, usage=Usage(events=0, bytes=0, opened_at=run.created_at), sealed=False
            )
            return status_document(run, log, policy=self._policy, workers=self._intake.workers, now=run.created_at)
        return await self._status_document(await self._store.runs.load(run.owner, run.id))

    def _run_document(self, loaded: Loaded) -> dict[str, JSON]:
        return run_document(
            loaded.run,
            policy=self._policy,
            now=loaded.now,
            workers=self._intake.workers,
            refused_until=loaded.refused_until,
        )

    async def _status_document(self, loaded: Loaded) -> dict[str, JSON]:
        return status_document(
            loaded.run,
            await self._store.logs.head(loaded.run.log),
            policy=self._policy,
            now=loaded.now,
            workers=self._intake.workers,
            refused_until=loaded.refused_until,
        )


def _check(said: Mapping[str, JSON], fields: Mapping[str, tuple[type, ...]]) -> None:
    if not said.keys() <= fields.keys():
        raise InputInvalid(f"The body of this call knows only {', '.join(fields)}.")
    for name, value in said.items():
        if not isinstance(value, fields[name]):
            raise InputInvalid(f"`{name}` is of another type than this call expects.")


def _trace(request: Request) -> str | None:
    """Return what the request says of its trace; one that says it twice says nothing."""
    given = request.headers.getlist(HEADER)
    return given[0] if len(given) == 1 else None


def _status(request: Request) -> Status | None:
    text = request.query_params.get("status")
    if text is not None and text not in set(Status):
        raise InputInvalid(f"`status` is one of {', '.join(Status)}.")
    return None if text is None else Status(text)
