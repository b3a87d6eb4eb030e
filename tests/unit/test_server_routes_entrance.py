"""The entrance: who may do what with whose run is the application's to say, and a no is like nothing being there."""

import json
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from outlast.errors import StoreUnavailable
from outlast.facts import Fact, HookTroubled
from outlast.run import Run
from outlast.server.access import Access
from outlast.server.identity import Action, Identity
from tests.stage import Handled, Site, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


async def by_header(connection: HTTPConnection) -> Identity | None:
    user = connection.headers.get("x-user")
    return None if user is None else Identity(owner=connection.headers.get("x-team", user), subject=user)


class Rules:
    """An application's `authorize`: what is allowed, and what it was asked."""

    def __init__(self, *allowed: tuple[str | None, Action]) -> None:
        self.allowed = set(allowed)
        self.asked: list[tuple[str | None, Action, str, str | None]] = []
        self.error: BaseException | None = None

    async def __call__(self, identity: Identity, action: Action, owner: str, run: Run | None) -> bool:
        self.asked.append((identity.subject, action, owner, None if run is None else run.id))
        if self.error is not None:
            raise self.error
        return (identity.subject, action) in self.allowed


def access(rules: Rules, facts: list[Fact] | None = None) -> Access:
    report = [].append if facts is None else facts.append
    return Access(report=report, authenticate=by_header, authorize=rules)


async def statuses(here: Site, user: dict[str, str], *, of: str = "?owner=team") -> dict[str, int]:
    ask = here.client.request
    said = {"worker": "chat", "input": 1, "id": f"by-{user['x-user']}"}
    answers = {
        "start": await ask("POST", f"/runs{of}", json=said, headers=user),
        "list": await ask("GET", f"/runs{of}", headers=user),
        "read": await ask("GET", f"/runs/r1{of}", headers=user),
        "events": await ask("GET", f"/runs/r1/events{of}", headers=user),
        "stop": await ask("POST", f"/runs/r1/stop{of}", headers=user),
    }
    return {name: answer.status_code for name, answer in answers.items()}


async def test_a_viewer_reads_and_does_nothing_else_and_an_admin_does_everything() -> None:
    rules = Rules(("eve", Action.READ), ("eve", Action.LIST), *(("root", action) for action in Action))
    async with staged() as stage, site(stage, access=access(rules)) as here:
        await stage.active("r1", owner="team")
        viewer = await statuses(here, {"x-user": "eve"})
        assert viewer == {"start": 403, "list": 200, "read": 200, "events": 200, "stop": 404}
        admin = await statuses(here, {"x-user": "root"})
        assert admin == {"start": 201, "list": 200, "read": 200, "events": 200, "stop": 202}
        assert (await stage.store.runs.load("team", "by-root")).run.owner == "team"
        location = (
            await here.client.post("/runs?owner=team", json={"worker": "chat", "input": 2}, headers={"x-user": "root"})
        ).headers["location"]
        assert (await here.client.get(location, headers={"x-user": "root"})).status_code == 200


async def test_members_of_one_owner_are_told_apart_by_their_subject() -> None:
    rules = Rules(("ann", Action.READ))
    async with staged() as stage, site(stage, access=access(rules)) as here:
        await stage.active("r1", owner="team")
        for user, status in (("ann", 200), ("bob", 404)):
            answer = await here.client.get("/runs/r1", headers={"x-user": user, "x-team": "team"})
            assert answer.status_code == status
    assert rules.asked == [("ann", Action.READ, "team", "r1"), ("bob", Action.READ, "team", "r1")]


async def test_the_hook_is_asked_again_by_every_resume_of_a_stream() -> None:
    rules = Rules(("ann", Action.READ))
    async with staged() as stage, site(stage, access=access(rules)) as here:
        run = await stage.active("r1", owner="ann")
        await stage.say(run, "one")
        async with here.stream("/runs/r1/events", headers={"x-user": "ann"}) as stream:
            place = (await stream.until("text"))[-1].id
        rules.allowed.clear()
        again = await here.client.get(
            "/runs/r1/events", headers={"x-user": "ann", "accept": "text/event-stream", "last-event-id": str(place)}
        )
        assert again.status_code == 404
    assert len(rules.asked) == 2


@pytest.mark.attack("Z4")
async def test_a_no_is_answered_word_for_word_like_a_run_that_is_not_there() -> None:
    rules = Rules(("ann", Action.STOP))
    async with staged() as stage, site(stage, access=access(rules)) as here:
        await stage.active("r1", owner="ann")
        for path in ("", "/events"):
            answers: list[Any] = []
            for id in ("r1", "none", "%00", "x" * 129):
                answer = await here.client.get(f"/runs/{id}{path}", headers={"x-user": "ann"})
                answers.append((answer.status_code, answer.content, sorted(answer.headers.items())))
            assert answers[0][0] == 404
            assert all(answer == answers[0] for answer in answers)


@pytest.mark.attack("Z4")
async def test_another_owner_cannot_be_named_where_no_hook_allows_it() -> None:
    alone = Access(report=[].append, authenticate=by_header)
    async with staged() as stage, site(stage, access=alone) as here:
        before = await stage.active("r1", owner="team")
        refused = await statuses(here, {"x-user": "eve"})
        assert refused == {"start": 403, "list": 403, "read": 404, "events": 404, "stop": 404}
        assert (await stage.store.runs.load("team", "r1")).run == before
        own = await here.client.get("/runs?owner=eve", headers={"x-user": "eve"})
        assert own.status_code == 200


async def test_a_stop_that_comes_before_its_run_is_asked_about_too() -> None:
    rules = Rules(("ann", Action.STOP))
    async with staged() as stage, site(stage, access=access(rules)) as here:
        early = await here.client.post("/runs/later/stop", headers={"x-user": "ann"})
        assert (early.status_code, early.json()["answer"]) == (202, "accepted")
        refused = await here.client.post("/runs/later/stop", headers={"x-user": "bob"})
        assert refused.status_code == 404
    assert rules.asked == [("ann", Action.STOP, "ann", None), ("bob", Action.STOP, "bob", None)]


@pytest.mark.attack("Z3")
async def test_a_hook_that_fails_refuses_and_its_words_go_nowhere() -> None:
    rules, facts = Rules(("ann", Action.READ)), list[Fact]()
    rules.error = RuntimeError("marker\n\x1b[31m")
    async with staged() as stage, site(stage, access=access(rules, facts)) as here:
        await stage.active("r1", owner="ann")
        answer = await here.client.get("/runs/r1", headers={"x-user": "ann"})
        assert (answer.status_code, answer.json()["code"]) == (404, "run_not_found")
        assert "marker" not in answer.text
    assert facts == [HookTroubled(hook="authorize", error="RuntimeError")]


@pytest.mark.parametrize("yes", [1, "yes", object(), None])
async def test_only_true_is_a_yes(yes: object) -> None:
    async def sloppy(*_: object) -> Any:
        return yes

    loose = Access(report=[].append, authenticate=by_header, authorize=sloppy)
    async with staged() as stage, site(stage, access=loose) as here:
        await stage.active("r1", owner="ann")
        assert (await here.client.get("/runs/r1", headers={"x-user": "ann"})).status_code == 404


async def test_while_nobody_can_tell_a_stream_is_told_to_come_again_and_a_page_is_a_503() -> None:
    async def down(_connection: HTTPConnection) -> str:
        raise ConnectionError("marker")

    facts: list[Fact] = []
    asking = Access(report=facts.append, authenticate=down)
    async with staged() as stage, site(stage, access=asking) as here:
        page = await here.client.get("/runs/r1/events")
        assert (page.status_code, page.json()["code"], page.headers["retry-after"]) == (503, "hook_failed", "2")
        stream = await here.client.get("/runs/r1/events", headers={"accept": "text/event-stream"})
        assert stream.status_code == 200
        assert b"retry:" in stream.content
        assert "marker" not in page.text + stream.text + json.dumps([str(fact) for fact in facts])


async def test_a_store_that_does_not_answer_the_hooks_question_ends_no_event_source() -> None:
    rules = Rules(("ann", Action.READ))
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, access=access(rules), handled=handled) as here:
            await stage.active("r1", owner="ann")

            async def away(_call: str) -> None:
                raise StoreUnavailable("away")

            handled.runs.before = away
            ann = {"x-user": "ann"}
            stream = await here.client.get("/runs/r1/events", headers={**ann, "accept": "text/event-stream"})
            assert (stream.status_code, b"retry:" in stream.content) == (200, True)
            assert (await here.client.get("/runs/r1", headers=ann)).status_code == 503
