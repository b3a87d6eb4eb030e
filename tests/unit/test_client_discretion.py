"""What a client asks stands in no log, neither its own nor those of what carries it; what others ask does."""

import ast
import asyncio
import logging
from pathlib import Path

import httpx2
import pytest

from outlast import RunNotFound, connect
from outlast.client import discretion
from outlast.client.discretion import discreet
from outlast.log.event import encode_json
from outlast.testing.peer import Answer, Asked, Close, ScriptedPeer
from outlast.wire import native
from tests.answers import GREETING
from tests.scripts import HELLO, frames

CLIENT = Path(discretion.__file__).parent
SECRETS = ("run-of-ann", "ann@example.org", "a-token", "a-worker", "127.0.0.1", "http://")
"""What comes from outside: an id, an owner, credentials, a name, where the server is."""
TOLD = {"type(error).__name__", "error.code", "code"}
"""What a client's own lines may tell besides their words: kinds, which are ours."""

RUN = Answer(body=[encode_json({"id": "run-of-ann"})], status=201)
STREAM = {"content-type": "text/event-stream"}
FAR = native.sse.encode(
    event="outlast.gap",
    data=b'{"reason":"ahead","requested":"0","first":1,"cursor":"5","snapshot_url":"http://elsewhere/x"}',
)


class Server:
    """Answers as a server in trouble does: streams break, refusals and pages come, then the run is not there."""

    def __init__(self) -> None:
        self.streams = iter(
            [
                Answer(headers=STREAM, body=[HELLO, *frames(1, 2), Close(reset=True)]),
                Answer(headers=STREAM, body=[HELLO, FAR]),
                Answer(status=404, body=[b"<html>run-of-ann"]),
                Answer(status=503, body=[b"run-of-ann"]),
            ]
        )

    def __call__(self, asked: Asked) -> Answer:
        if asked.path.endswith("/session"):
            return GREETING
        if asked.method == "POST":
            return RUN
        if asked.path.endswith("/snapshot"):
            return Answer(status=500, body=[b"run-of-ann"])
        missing = Answer(status=404, body=[encode_json({"code": "run_not_found", "detail": "run-of-ann"})])
        return next(self.streams, missing)


@pytest.mark.anyio
@pytest.mark.virtual
@pytest.mark.behaviour("P18")
async def test_nothing_from_outside_stands_in_a_log_whatever_happens(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> dict[str, str]:
        raise LookupError("a-token of ann@example.org")

    caplog.set_level(logging.DEBUG)
    async with ScriptedPeer(Server()) as peer:
        async with connect(peer.url, headers={"authorization": "a-token"}, jitter=lambda: 0.5) as client:
            await client.start("a-worker", id="run-of-ann", owner="ann@example.org")
            client.wakeup("visible")
            with pytest.raises(RunNotFound):
                async for _ in client.follow("run-of-ann", owner="ann@example.org"):
                    pass
        async with connect(peer.url, headers=failing) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(10):
                    await client.status("run-of-ann")
    said = [record.getMessage() + (record.exc_text or "") for record in caplog.records]
    assert "an attempt to connect failed unexpectedly (LookupError)" in said
    assert [line for line in said if any(secret in line for secret in SECRETS)] == []


@pytest.mark.anyio
@pytest.mark.virtual
async def test_what_an_application_asks_by_itself_is_told_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with ScriptedPeer([GREETING]) as peer, httpx2.AsyncClient() as theirs:
        with discreet():
            await theirs.get(f"{peer.url}/ours")
        await theirs.get(f"{peer.url}/theirs")
    assert [line for line in caplog.messages if "/theirs" in line or "/ours" in line] == [
        f'HTTP Request: GET {peer.url}/theirs "HTTP/1.1 200 OK"'
    ]


def test_every_logger_of_what_carries_a_client_is_kept_quiet() -> None:
    below = {name for name in logging.Logger.manager.loggerDict if name.startswith(("httpx2", "httpcore2."))}
    assert below - {"httpcore2"} <= set(discretion.BELOW)


@pytest.mark.behaviour("P18")
def test_what_a_client_logs_are_words_of_ours_and_kinds() -> None:
    lines = [
        call
        for path in CLIENT.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "log"
    ]
    assert lines
    for call in lines:
        words, *told = call.args
        assert isinstance(words, ast.Constant), ast.unparse(call)
        assert {ast.unparse(each) for each in told} <= TOLD, ast.unparse(call)
        assert not call.keywords, "no exception is told whole"
