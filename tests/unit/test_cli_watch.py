"""`outlast watch`: how the links are, in lines, in place and as JSON."""

import asyncio
import json
from dataclasses import replace

import pytest

from outlast.cli.program import run
from outlast.cli.watch import document, lines_of, view
from outlast.client.registry import Registry
from outlast.supervision.phase import Grade, Phase, Trouble
from outlast.supervision.record import LinkRecord
from outlast.testing.peer import Answer, Hold, ScriptedPeer
from tests.answers import GREETING

LIVE = LinkRecord(
    phase=Phase.LIVE,
    since=90.0,
    generation=2,
    last_heard=99.0,
    attempt=None,
    retry_at=None,
    trouble=None,
    evidence=None,
    can_send=True,
)
BUSY = replace(LIVE, phase=Phase.BUSY, evidence=Grade.BEACON, last_heard=70.0)
LOST = replace(
    LIVE,
    phase=Phase.BACKOFF,
    last_heard=None,
    attempt=4,
    retry_at=103.0,
    trouble=Trouble.UNREACHABLE,
    can_send=False,
)


@pytest.mark.behaviour("M6")
def test_a_server_that_is_busy_is_told_apart_from_one_that_is_lost() -> None:
    lines = view({"http://a": LIVE, "http://b": BUSY, "http://c": LOST}, now=100.0, width=120)
    assert [" ".join(line.split()) for line in lines] == [
        "server link for last heard",
        "● http://a connected 10 s 1 s ago",
        "○ http://b server is busy, your run continues (its beacon answers) 10 s 30 s ago",
        "○ http://c lost, retrying in 3 s: the server cannot be reached (attempt 4) 10 s",
    ]


def test_every_line_fits_and_nothing_moves_the_cursor() -> None:
    lines = view({"http://" + "x" * 200 + "\x1b[2J": LOST}, now=100.0, width=60)
    assert all(len(line) <= 60 for line in lines)
    assert "\x1b" not in "".join(lines)


@pytest.mark.behaviour("M4")
def test_json_has_the_whole_record_with_its_times_as_seconds_from_now() -> None:
    assert document("http://c", LOST, now=100.0) == {
        "url": "http://c",
        "phase": "backoff",
        "sentence": "lost, retrying in 3 s: the server cannot be reached (attempt 4)",
        "generation": 2,
        "heard_ago": None,
        "attempt": 4,
        "retry_in": 3.0,
        "trouble": "unreachable",
        "evidence": None,
        "can_send": False,
    }
    assert document("http://a", LIVE, now=100.0)["heard_ago"] == 1.0


@pytest.mark.anyio
@pytest.mark.virtual
async def test_each_change_of_a_link_is_a_line_and_what_is_only_heard_again_is_none() -> None:
    said: list[dict[str, object]] = []
    async with ScriptedPeer([GREETING, GREETING, Answer(body=[Hold()])]) as there, Registry() as servers:
        client = await servers.add("here", there.url)

        async def listen() -> None:
            async for line in lines_of("here", client, width=4, as_json=True):
                said.append(json.loads(line))  # noqa: PERF401 - an extend would lose it

        listening = asyncio.create_task(listen())
        await there.until(lambda peer: len(peer.asked) == 3)  # a probe at each silence, and the second is not answered
        await servers.remove("here")
        await listening
    assert [(line["phase"], line["generation"]) for line in said] == [
        ("connecting", 0),
        ("live", 1),
        ("slow", 1),
        ("live", 1),
        ("slow", 1),
        ("closed", 1),
    ]


def test_an_impossible_url_is_one_sentence_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", "nowhere"]) == 2
    assert "http://127.0.0.1:8400" in capsys.readouterr().err
