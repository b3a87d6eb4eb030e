import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from outlast import errors
from outlast.server.routes.problem import STATUSES, problem, unknown


def kinds(kind: type[errors.OutlastError]) -> Iterator[type[errors.OutlastError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from kinds(below)


def body(error: Exception) -> dict[str, Any]:
    return json.loads(bytes(problem(error).body))


def test_every_refusal_has_its_status() -> None:
    assert not set(kinds(errors.Refusal)) - STATUSES.keys()


@pytest.mark.parametrize("kind", [kind for kind in STATUSES if kind is not errors.ThreadBusy])
def test_an_error_is_told_with_its_status_and_code(kind: type[errors.OutlastError]) -> None:
    response = problem(kind("A sentence."))
    assert response.status_code == STATUSES[kind]
    assert response.media_type == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    said = body(kind("A sentence."))
    assert {"type", "title", "status", "code", "detail"} == said.keys()
    assert (said["status"], said["code"]) == (STATUSES[kind], kind.code)
    assert ("retry-after" in response.headers) == (response.status_code in {429, 503})


def test_a_busy_thread_names_its_live_run() -> None:
    said = body(errors.ThreadBusy("The thread has a live run.", live="r7"))
    assert (said["status"], said["code"], said["live"]) == (409, "thread_busy", "r7")


@pytest.mark.behaviour("A5")
def test_a_run_that_is_not_found_is_told_in_one_way_only() -> None:
    assert problem(errors.RunNotFound("no row")).body == problem(errors.RunNotFound("another owner's")).body


@pytest.mark.parametrize("kind", [errors.StoreUnavailable, errors.StoreBusy, errors.StoreFull, errors.StoreReadOnly])
def test_a_store_in_trouble_is_told_without_its_words(kind: type[errors.OutlastError]) -> None:
    response = problem(kind("/var/lib/runs.db is locked"))
    assert response.status_code == 503
    assert b"runs.db" not in bytes(response.body)
    assert body(kind("x"))["code"] == kind.code


@pytest.mark.parametrize("kind", [errors.StoreError, errors.StoreCorrupt, errors.SchemaNewer])
def test_a_store_that_is_broken_is_told_by_its_code_alone(kind: type[errors.OutlastError]) -> None:
    said = body(kind("page 7 of /var/lib/runs.db"))
    assert (said["status"], said["code"]) == (500, kind.code)
    assert "runs.db" not in said["detail"]


@pytest.mark.parametrize("error", [errors.Fenced("x"), ZeroDivisionError("secret"), errors.OutlastError("y")])
def test_whatever_else_goes_wrong_is_ours_and_says_nothing(error: Exception) -> None:
    assert problem(error).status_code == 500
    assert body(error)["code"] == "internal"
    assert str(error) not in body(error).values()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (401, "unauthenticated"),
        (403, "not_admitted"),
        (404, "not_found"),
        (405, "method_not_allowed"),
        (415, "input_invalid"),
        (418, "refused"),
    ],
)
def test_a_bare_status_has_a_code_and_keeps_its_headers_but_not_its_words(status: int, code: str) -> None:
    response = problem(HTTPException(status, detail="marker", headers={"www-authenticate": "Bearer"}))
    said = json.loads(bytes(response.body))
    assert (response.status_code, said["code"]) == (status, code)
    assert response.headers["www-authenticate"] == "Bearer"
    assert b"marker" not in bytes(response.body)


@pytest.mark.anyio
async def test_a_websocket_that_no_route_knows_is_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await unknown({"type": "websocket"}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
