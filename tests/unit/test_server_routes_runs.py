import json
from typing import Any
from urllib.parse import quote

import pytest

from outlast.errors import StoreUnavailable
from outlast.log.event import Event
from outlast.recovery import RecoveryPolicy
from outlast.run import Cancelled, Completed, Failed, FailureCode, Run
from outlast.wire.status import moment, outcome_document, status_document
from tests.stage import Handled, Site, Stream, names, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


START = {"id": "r1", "worker": "chat", "input": {"q": "hi"}}


async def row(here: Site, id: str = "r1") -> Run:
    return (await here.store.runs.load("", id)).run


async def refused(here: Site, path: str, said: object, **options: Any) -> tuple[int, str]:
    answer = await here.client.post(path, json=said, **options)
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


# ---- starting -----------------------------------------------------------------------------------


@pytest.mark.behaviour("A1")
async def test_a_start_is_answered_with_the_run_and_where_it_is() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.post("/runs", json={**START, "thread": "t", "metadata": {"k": [1]}})
        assert answer.status_code == 201
        assert answer.headers["location"] == "/runs/r1"
        assert answer.headers["outlast-run"] == "r1"
        run = await row(here)
        assert (run.worker, run.thread, run.input, run.metadata) == ("chat", "t", b'{"q":"hi"}', b'{"k":[1]}')
        assert answer.json() == (await here.client.get("/runs/r1")).json()


@pytest.mark.behaviour("A1")
async def test_the_same_start_again_is_the_same_run_and_another_one_is_a_conflict() -> None:
    async with staged() as stage, site(stage) as here:
        first = await here.client.post("/runs", json=START)
        again = await here.client.post("/runs", json=START)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json() == first.json()
        assert await refused(here, "/runs", {**START, "input": "other"}) == (409, "id_conflict")
        assert len((await here.client.get("/runs")).json()["runs"]) == 1


@pytest.mark.behaviour("A1")
async def test_a_busy_thread_names_its_live_run() -> None:
    async with staged() as stage, site(stage) as here:
        await here.client.post("/runs", json={**START, "thread": "t"})
        answer = await here.client.post("/runs", json={**START, "id": "r2", "thread": "t"})
        assert answer.status_code == 409
        assert (answer.json()["code"], answer.json()["live"]) == ("thread_busy", "r1")


async def test_a_run_without_an_id_gets_one() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.post("/runs", json={"worker": "chat", "input": None})
        assert answer.status_code == 201
        assert (await row(here, answer.json()["id"])).input == b"null"


async def test_a_run_that_was_stopped_before_it_came_is_born_cancelled() -> None:
    async with staged() as stage, site(stage) as here:
        assert (await here.client.post("/runs/r1/stop")).status_code == 202
        answer = await here.client.post("/runs", json=START)
        assert (answer.status_code, answer.json()["status"]) == (201, "cancelled")
        assert answer.json()["head"].startswith("1-")


async def test_a_start_that_accepts_a_stream_is_streamed_at_once() -> None:
    async with staged() as stage, site(stage) as here:
        headers = {"accept": "text/event-stream"}
        async with here.client.stream("POST", "/runs", json=START, headers=headers) as response:
            assert response.status_code == 201
            assert (response.headers["outlast-run"], response.headers["location"]) == ("r1", "/runs/r1")
            assert response.headers["content-type"] == "text/event-stream"
            stream = Stream(response)
            await stream.until("outlast.caught-up")
            run = await stage.claim(await row(here))
            await stage.say(run, "a")
            await stage.settle(run)
            assert names(await stream.rest()) == ["text", "run.completed", "outlast.end"]
        async with here.client.stream("POST", "/runs", json=START, headers=headers) as response:
            assert response.status_code == 200
            assert names(await Stream(response).rest())[1:3] == ["text", "run.completed"]


async def test_a_streaming_start_whose_log_cannot_be_read_still_tells_the_id() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)

        async def fail(_call: str) -> None:
            raise StoreUnavailable("away")

        handled.logs.before = fail
        async with site(stage, handled=handled) as here:
            said = {"worker": "chat", "input": 1}
            answer = await here.client.post("/runs", json=said, headers={"accept": "text/event-stream"})
            assert answer.status_code == 201
            assert answer.text == ": hello\n\nretry: 2000\n\n"
            assert await row(here, answer.headers["outlast-run"])
            plain = await here.client.post("/runs", json=said)
            assert plain.status_code == 201, "nothing that can fail is asked after the fact"


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"input": 1}, 400, "input_invalid"),
        ({"worker": "chat"}, 400, "input_invalid"),
        ({}, 400, "input_invalid"),
        ({**START, "worker": 1}, 400, "input_invalid"),
        ({**START, "id": 1}, 400, "input_invalid"),
        ({**START, "id": ""}, 400, "input_invalid"),
        ({**START, "id": "a/b"}, 400, "input_invalid"),
        ({**START, "id": "x" * 129}, 400, "input_invalid"),
        ({**START, "thread": ["t"]}, 400, "input_invalid"),
        ({**START, "metadata": "m"}, 400, "input_invalid"),
        ({**START, "on_buzy": "queue"}, 400, "input_invalid"),
        ({**START, "worker": "marker"}, 422, "unknown_worker"),
    ],
)
async def test_a_start_that_is_malformed_is_refused_and_starts_nothing(said: Any, status: int, code: str) -> None:
    async with staged() as stage, site(stage) as here:
        assert await refused(here, "/runs", said) == (status, code)
        assert (await here.client.get("/runs")).json()["runs"] == []


async def test_a_start_with_a_malformed_cursor_starts_nothing() -> None:
    async with staged() as stage, site(stage) as here:
        assert await refused(here, "/runs?after=x", START) == (400, "cursor_invalid")
        assert (await here.client.get("/runs")).json()["runs"] == []


@pytest.mark.attack("Z9")
async def test_giant_deep_and_foreign_bodies_are_refused_as_problems() -> None:
    async with staged() as stage, site(stage) as here:
        assert await refused(here, "/runs", {**START, "input": "x" * 1_100_000}) == (413, "too_large")
        deep: Any = 1
        for _ in range(70):
            deep = [deep]
        assert await refused(here, "/runs", {**START, "input": deep}) == (400, "input_invalid")
        answer = await here.client.post("/runs", content=json.dumps(START), headers={"content-type": "text/plain"})
        assert (answer.status_code, answer.json()["code"]) == (415, "input_invalid")


async def test_a_location_stands_under_the_prefix_where_the_routes_are_mounted() -> None:
    async with staged() as stage, site(stage) as here, here.as_client(root_path="/agents") as client:
        answer = await client.post("/agents/runs", json=START)
        assert answer.headers["location"] == "/agents/runs/r1"


@pytest.mark.attack("Z14")
@pytest.mark.parametrize("tenant", ["a b", "é", "€", "a\r\nset-cookie: b=c", "a?b#c%"])
async def test_a_location_is_an_address_whatever_a_client_says_in_the_prefix(tenant: str) -> None:
    prefix = f"/{tenant}/agents"
    async with staged() as stage, site(stage) as here, here.as_client(root_path=prefix) as client:
        answer = await client.post(f"{quote(prefix)}/runs", json=START)
        assert (answer.status_code, answer.headers["location"]) == (201, f"{quote(prefix)}/runs/r1")
        gap = (await client.get(f"{quote(prefix)}/runs/r1/events?after=99")).json()["gap"]
        assert gap.get("snapshot_url", quote(prefix)).startswith(quote(prefix))


@pytest.mark.attack("Z14")
@pytest.mark.parametrize(
    "id",
    ["'; DROP TABLE run; --", '" OR 1=1', "%", "*", "r1\x00", "a b", "{r1}", "r1%00", "../r1", "r1;", "ünï", "?"],
)
async def test_an_id_that_tries_to_be_more_is_not_found_and_harms_nothing(id: str) -> None:
    async with staged() as stage, site(stage) as here:
        await here.client.post("/runs", json=START)
        for path in ("/runs/{}", "/runs/{}/events"):
            assert (await here.client.get(path.format(quote(id, safe="")))).status_code == 404
        assert (await here.client.post(f"/runs/{quote(id, safe='')}/stop")).status_code in {400, 404}
        for name in ("after", "status"):
            assert (await here.client.get("/runs", params={name: id})).status_code == 400
        assert await refused(here, "/runs", {**START, "id": id}) == (400, "input_invalid")
        assert [run["id"] for run in (await here.client.get("/runs")).json()["runs"]] == ["r1"]


@pytest.mark.attack("Z14")
async def test_a_thread_and_a_reason_are_words_and_nothing_more() -> None:
    async with staged() as stage, site(stage) as here:
        await here.client.post("/runs", json={**START, "metadata": {"'; --": "\u0000"}})
        reason = "'); DELETE FROM run; -- \u0000"
        half = '{"reason": "\\ud83d"}'  # no text, so no store could keep it
        answer = await here.client.post("/runs/r1/stop", content=half, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")
        answer = await here.client.post("/runs/r1/stop", json={"reason": reason})
        assert answer.json()["outcome"] == {"code": "cancelled", "reason": reason}
        assert (await row(here)).outcome == Cancelled(reason=reason)


# ---- looking ------------------------------------------------------------------------------------


@pytest.mark.behaviour("F17")
async def test_a_status_document_is_what_the_row_and_the_log_say() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a", "b")
        answer = await here.client.get("/runs/r1")
        loaded = await here.store.runs.load("", "r1")
        head = await here.store.logs.head(run.log)
        document = status_document(loaded.run, head, policy=RecoveryPolicy(), now=loaded.now)
        assert answer.json() == document
        assert (answer.json()["head"], answer.json()["first"]) == (str(head.cursor), 1)
        assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.behaviour("B18", "F17")
async def test_a_run_whose_admission_was_refused_says_when_it_is_asked_for_again() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.start()
        await here.store.runs.refuse(run, retry_in=30)
        assert (await here.client.get("/runs/r1")).json()["standstill"] == {
            "code": "refused",
            "message": "Its admission was refused: it is asked for again in 30 s.",
        }
        (listed,) = (await here.client.get("/runs")).json()["runs"]
        again = (await here.client.post("/runs", json={"id": "r1", "worker": "chat", "input": None})).json()
        assert listed["standstill"]["code"] == again["standstill"]["code"] == "refused"


async def test_a_status_document_that_says_nothing_new_is_not_sent_again() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        tag = (await here.client.get("/runs/r1")).headers["etag"]
        for known in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
            again = await here.client.get("/runs/r1", headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        await stage.say(run, "a")
        news = await here.client.get("/runs/r1", headers={"if-none-match": tag})
        assert news.status_code == 200
        assert news.headers["etag"] != tag


async def test_a_run_that_is_not_there_is_not_found() -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get("/runs/none")
        assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found")


async def test_a_store_in_trouble_is_a_503_that_says_when_to_come_again() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)

        async def fail(_call: str) -> None:
            raise StoreUnavailable("/var/lib/runs.db is locked")

        handled.runs.before = fail
        async with site(stage, handled=handled) as here:
            await stage.start()
            answer = await here.client.get("/runs/r1")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            assert "runs.db" not in answer.text


async def test_runs_are_listed_newest_first_page_by_page() -> None:
    async with staged() as stage, site(stage) as here:
        for number in range(5):
            await stage.start(f"r{number}")
        found: list[str] = []
        before: dict[str, str] = {}
        while True:
            page = (await here.client.get("/runs", params={"limit": 2, **before})).json()
            found += [run["id"] for run in page["runs"]]
            if page["next"] is None:
                break
            before = {"after": page["next"]}
        assert found == ["r4", "r3", "r2", "r1", "r0"]


async def test_a_page_of_a_list_is_one_reading_of_the_store() -> None:
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            await stage.store.runs.refuse(await stage.start(), retry_in=30)
            handled.runs.loads = 0
            (listed,) = (await here.client.get("/runs")).json()["runs"]
            assert listed["standstill"]["code"] == "refused"
            assert handled.runs.loads == 0


async def test_a_list_can_be_narrowed_to_a_thread() -> None:
    async with staged() as stage, site(stage) as served:
        for number in range(3):
            await stage.settle(await stage.active(f"r{number}", thread="t1"))
        await stage.start("other", thread="t2")
        page = (await served.client.get("/runs?thread=t1&limit=2&status=completed")).json()
        assert [run["id"] for run in page["runs"]] == ["r2", "r1"]
        rest = (await served.client.get(f"/runs?thread=t1&after={page['next']}")).json()
        assert [run["id"] for run in rest["runs"]] == ["r0"]
        assert (await served.client.get("/runs?thread=t9")).json() == {"runs": [], "next": None}


async def test_a_list_tells_rows_with_their_heads_and_can_be_narrowed_to_a_status() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start("queued")
        run = await stage.active("done")
        await stage.settle(run)
        (listed,) = (await here.client.get("/runs", params={"status": "completed"})).json()["runs"]
        whole = (await here.client.get("/runs/done")).json()
        assert listed == {name: value for name, value in whole.items() if name not in {"first", "snapshot"}}
        assert (await here.client.get("/runs", params={"status": "parked"})).json() == {"runs": [], "next": None}


@pytest.mark.parametrize("query", ["status=running", "limit=0", "limit=201", "limit=x", "after=a%20b", "status="])
async def test_a_list_that_is_asked_for_nonsense_is_refused(query: str) -> None:
    async with staged() as stage, site(stage) as here:
        answer = await here.client.get(f"/runs?{query}")
        assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")


# ---- stopping -----------------------------------------------------------------------------------


@pytest.mark.behaviour("S3")
async def test_a_stop_says_what_is_true_now() -> None:
    async with staged() as stage, site(stage) as here:
        unknown = await here.client.post("/runs/later/stop")
        assert (unknown.status_code, unknown.json()) == (202, {"answer": "accepted", "status": None, "outcome": None})

        await stage.active("held")
        held = await here.client.post("/runs/held/stop", json={"reason": "enough"})
        assert (held.status_code, held.json()) == (202, {"answer": "accepted", "status": "active", "outcome": None})
        assert (await here.client.get("/runs/held")).json()["stop_requested"] is True

        await stage.start("queued")
        outcome = {"code": "cancelled", "reason": "enough"}
        queued = await here.client.post("/runs/queued/stop", json={"reason": "enough"})
        assert (queued.status_code, queued.json()) == (
            200,
            {"answer": "settled", "status": "cancelled", "outcome": outcome},
        )
        again = await here.client.post("/runs/queued/stop", json={"reason": "other"})
        assert (again.status_code, again.json()) == (
            200,
            {"answer": "already", "status": "cancelled", "outcome": outcome},
        )


@pytest.mark.behaviour("S3")
@pytest.mark.parametrize("outcome", [Completed(), Failed(code=FailureCode.WORKER_ERROR, message="It raised.")])
@pytest.mark.case(57)
async def test_a_late_stop_is_told_the_outcome_that_was_there_before(outcome: Completed | Failed) -> None:
    async with staged() as stage, site(stage) as here:
        await stage.settle(await stage.active(), outcome)
        answer = await here.client.post("/runs/r1/stop")
        assert answer.status_code == 200
        assert answer.json()["answer"] == "already"
        assert answer.json()["outcome"] == outcome_document(outcome)


@pytest.mark.parametrize(
    ("said", "code"),
    [({"reason": 1}, "input_invalid"), ({"why": "x"}, "input_invalid"), ({"reason": "x" * 1001}, "input_invalid")],
)
async def test_a_malformed_stop_stops_nothing(said: Any, code: str) -> None:
    async with staged() as stage, site(stage) as here:
        await stage.start()
        assert await refused(here, "/runs/r1/stop", said) == (400, code)
        assert (await row(here)).stop is None
        assert (await row(here)).outcome is None


@pytest.mark.behaviour("A4")
async def test_no_get_changes_anything() -> None:
    async with staged() as stage, site(stage) as here:
        before = [await stage.start("queued"), await stage.active("held")]
        for path in ("/runs", "/healthz", "/"):
            await here.client.get(path)
        for run in before:
            await here.client.get(f"/runs/{run.id}")
            await here.client.get(f"/runs/{run.id}/events")
            await here.client.head(f"/runs/{run.id}/events", headers={"accept": "text/event-stream"})
            async with here.stream(f"/runs/{run.id}/events") as stream:
                await stream.until("outlast.caught-up")
            assert await row(here, run.id) == run


@pytest.mark.attack("Z1")
async def test_a_workers_word_in_a_status_is_json_and_nothing_else() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, Event("text", "</script>\r\n\r\nevent: outlast.end"))
        await stage.settle(run, Cancelled(reason="\r\nset-cookie: a=b"))
        answer = await here.client.get("/runs/r1")
        assert "set-cookie" not in answer.headers
        assert answer.json()["outcome"]["reason"] == "\r\nset-cookie: a=b"
        assert answer.headers["x-content-type-options"] == "nosniff"


# ---- lineage ------------------------------------------------------------------------------------


async def test_the_lineage_of_a_run_is_told_to_its_owner() -> None:
    async with staged() as stage, site(stage) as here:
        await here.client.post("/runs", json=START)
        await here.client.post("/runs/r1/stop", json={})
        run = await row(here)
        answer = await here.client.get("/runs/r1/lineage")
        assert answer.status_code == 200
        (entry,) = answer.json()["lineage"]
        assert answer.json() == {"id": "r1", "log": run.log, "epoch": 1, "lineage": [entry]}
        assert entry == {
            "epoch": 1,
            "claim": run.claim,
            "node": None,
            "at": moment(run.updated_at),
            "kind": "settle",
            "cause": None,
            "calls": 0,
        }
        missing = await here.client.get("/runs/r2/lineage")
        assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found")


# ---- erasing ------------------------------------------------------------------------------------


CALLS = [
    ("GET", "/runs/r1", None),
    ("GET", "/runs/r1/events", None),
    ("GET", "/runs/r1/events?after=2", "text/event-stream"),
    ("POST", "/runs/r1/stop", None),
    ("DELETE", "/runs/r1", None),
]


@pytest.mark.behaviour("L9", "A4")
@pytest.mark.case(31)
async def test_whoever_asks_for_an_erased_run_is_told_that_it_is_gone_and_nothing_starts_again() -> None:
    async with staged() as stage, site(stage) as here:
        assert (await here.client.post("/runs", json=START)).status_code == 201
        run = await stage.claim(await row(here))
        await stage.say(run, "a")
        await stage.settle(run)
        erased = await here.client.delete("/runs/r1")
        assert (erased.status_code, erased.content) == (204, b"")
        for method, path, accept in CALLS:
            answer = await here.client.request(method, path, headers={"accept": accept or "*/*"})
            assert (answer.status_code, answer.json()["code"]) == (410, "run_gone"), path
            assert "gone" in answer.json()["detail"]
        assert await refused(here, "/runs", START) == (410, "run_gone")
        assert (await here.client.get("/runs")).json()["runs"] == []
        assert (await stage.store.runs.due(["chat"], limit=9)).runs == []


async def test_a_live_run_and_none_are_not_erased() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.active()
        live = await here.client.delete("/runs/r1")
        assert (live.status_code, live.json()["code"]) == (409, "run_live")
        assert "stop it first" in live.json()["detail"]
        for path in ("/runs/r2", "/runs/no%20id"):
            absent = await here.client.delete(path)
            assert (absent.status_code, absent.json()["code"]) == (404, "run_not_found")
        assert (await row(here)).holder is not None
