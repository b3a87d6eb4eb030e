"""What comes from outside goes nowhere but into the rows it is for: into no log line and no header."""

import logging
import random
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from starlette.requests import HTTPConnection

from outlast import ActiveRun, Cursor, CursorInvalid, Identity, Outlast, Run
from outlast.client.asgi import StreamingTransport
from tests.stage import Handled, site, staged

pytestmark = pytest.mark.anyio

MARKERS = ["marker\r\nx-injected: 1", "\x1b[31mmarker\x1b[0m", "marker\u2028\u0085\x00", "marker" * (1 << 17)]
TOKEN = "marker-token"
LETTERS = "0123456789abcdef-_. %+\x00é\u2028"


async def authenticate(connection: HTTPConnection) -> Identity | None:
    if connection.headers.get("x-fail"):
        raise RuntimeError(MARKERS[0])
    return Identity(owner="ann", subject=connection.headers.get("x-subject"))


async def authorize(identity: Identity, *_: object) -> bool:
    if identity.subject == "fails":
        raise RuntimeError(MARKERS[1])
    return True


async def admit(run: Run) -> None:
    if b"refuse" in run.input:
        raise RuntimeError(MARKERS[0])


def application() -> Outlast:
    outlast = Outlast(
        "sqlite://", authenticate=authenticate, authorize=authorize, admit=admit, origins=("https://a.b",)
    )

    @outlast.worker("chat")
    async def chat(run: ActiveRun) -> Any:
        yield str(run.input)
        raise RuntimeError(MARKERS[0])

    return outlast


def requests(marker: str) -> Iterator[dict[str, Any]]:
    """Put the marker into every input there is; a header takes what may stand in one."""
    header = "".join(letter for letter in marker if " " <= letter <= "~" or letter == "\x1b")[: 1 << 13]
    short = marker[: 1 << 12]
    for path in ("/runs/{}", "/runs/{}/events", "/runs/{}/stop", "/{}", "/threads/{}"):
        for method in ("GET", "POST", "DELETE", header.split("\x1b")[0] or "GET"):
            yield {"method": method, "url": httpx2.URL("/").join(path.format(_quoted(short)))}
    for name in ("owner", "after", "limit", "status", "wait", "types", "envelope", "access_token", "thread"):
        for path in ("/runs", "/runs/r1", "/runs/r1/events"):
            yield {"method": "GET", "url": path, "params": {name: short}}
    for name in ("authorization", "last-event-id", "accept", "origin", "cookie", "if-none-match", "x-subject"):
        for path in ("/runs", "/runs/r1", "/runs/r1/events"):
            yield {"method": "GET", "url": path, "headers": {name: header}}
    for name in ("id", "thread", "worker", "input", "metadata", "reason", marker):
        said = {"worker": "chat", "input": 1, name: marker}
        yield {"method": "POST", "url": "/runs", "json": said}
        yield {"method": "POST", "url": "/runs/r1/stop", "json": {name: marker}}
    yield {"method": "POST", "url": "/runs", "content": marker.encode(), "headers": {"content-type": header}}
    yield {"method": "POST", "url": "/runs", "json": {"worker": "chat", "input": f"refuse {marker}"}}
    yield {"method": "GET", "url": "/runs/r1", "headers": {"x-fail": "1", "authorization": f"Bearer {TOKEN}"}}
    yield {"method": "GET", "url": "/runs/r1", "headers": {"x-subject": "fails"}}


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


@pytest.mark.attack("Z2", "Z3", "Z13")
@pytest.mark.parametrize("marker", MARKERS, ids=["line", "ansi", "separators", "large"])
async def test_no_input_reaches_a_log_line_or_a_header(marker: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    outlast = application()
    transport = StreamingTransport(outlast.app)
    answered = 0
    async with outlast, httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        await client.post("/runs", json={"worker": "chat", "input": marker, "id": "r1"})
        for said in requests(marker):
            async with client.stream(**said) as answer:
                assert "marker" not in str(answer.headers).lower(), (said["method"], said["url"])
                assert "x-injected" not in answer.headers
            answered += 1
    assert answered > 70
    ours = [record for record in caplog.records if record.name.startswith("outlast")]
    assert ours
    for record in caplog.records:
        if record.name.startswith(("outlast", "uvicorn", "asyncio", "starlette")):
            assert "marker" not in f"{record.getMessage()} {record.exc_text} {vars(record)}"
            assert "\x1b" not in record.getMessage()


@pytest.mark.attack("Z5")
async def test_cursors_of_every_shape_are_refused_or_told_and_cost_one_read_at_most() -> None:
    dice = random.Random(7)
    async with staged() as stage:
        handled = Handled(stage.store)
        async with site(stage, handled=handled) as here:
            run = await stage.active("r1")
            head = await stage.say(run, *"abc")
            made = [
                str(head),
                str(head).upper(),
                "0",
                "-1",
                "1-",
                "99999999999",
                "9" * 400,
                f"{2**63}",
                f"{2**63}-{'0' * 16}",
            ]
            for number in range(2000):
                cursor = made[number] if number < len(made) else _fuzzed(dice, str(head), LETTERS)
                handled.logs.calls.clear()
                answer = await here.client.get("/runs/r1/events", params={"after": cursor})
                assert answer.status_code in {200, 400}, cursor
                assert handled.logs.calls["chain_at"] <= 1, cursor
                if answer.status_code == 400:
                    assert answer.json()["code"] == "cursor_invalid"
                    assert not handled.logs.calls
                else:
                    assert [each["seq"] for each in answer.json()["events"]] in ([1, 2, 3], [2, 3], [3], []), cursor


@pytest.mark.attack("Z5")
def test_a_hundred_thousand_texts_are_a_place_or_no_cursor_and_nothing_else() -> None:
    dice, places = random.Random(8), 0
    for _ in range(100_000):
        text = _fuzzed(dice, "42-8f1c2d3e4a5b6c7d", LETTERS)
        try:
            places += 0 <= Cursor.parse(text).seq < 2**63
        except CursorInvalid:
            continue
    assert 0 < places < 100_000


def _fuzzed(dice: random.Random, head: str, letters: str) -> str:
    if dice.random() < 0.5:
        at = dice.randrange(len(head))
        return head[:at] + dice.choice(letters) + head[at + dice.randrange(3) :]
    return "".join(dice.choice(letters) for _ in range(dice.randrange(1, 40)))
