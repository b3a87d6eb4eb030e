"""The recipe for following a thread, as the HTTP reference shows it, follows what others start there."""

import asyncio
from typing import Any

import httpx2
import pytest

from docs.draw import PAGES
from outlast import ActiveRun, Outlast
from outlast.client.asgi import StreamingTransport
from tests.docs.examples import blocks

RECIPE = "conversation.py"


class Thread:
    """A thread as a reader sees it who follows it by the page's recipe, and what others start there."""

    def __init__(self, outlast: Outlast) -> None:
        self.seen: list[tuple[str, str]] = []
        self._transport = StreamingTransport(outlast.app)
        (recipe,) = [each for each in blocks((PAGES / "http.md").read_text()) if each.marks.get("file") == RECIPE]
        self._recipe: dict[str, Any] = {}
        exec(compile(recipe.code, RECIPE, "exec"), self._recipe)  # the page's own code

    async def follow(self, *, last: str) -> None:
        """Follow the thread until a run has ended."""
        async with httpx2.AsyncClient(transport=self._transport) as client:
            async for id, received in self._recipe["follow_thread"](client, "http://localhost", "t1", pause=0.01):
                self.seen.append((id, received.type))
                if id == last and received.is_terminal:
                    return

    async def start(self, id: str, *, thread: str = "t1", whole: bool = True) -> None:
        """Start a run from another client, and with `whole` wait for its end."""
        said = {"id": id, "worker": "chat", "input": id, "thread": thread}
        accept = "text/event-stream" if whole else "application/json"
        async with httpx2.AsyncClient(transport=self._transport) as client:
            await client.post("http://localhost/runs", json=said, headers={"accept": accept})

    async def until(self, id: str, kind: str) -> None:
        """Wait until the reader has seen it; the time limit of the test bounds it."""
        while (id, kind) not in self.seen:
            await asyncio.sleep(0)


@pytest.mark.anyio
@pytest.mark.case(39)
async def test_who_follows_a_thread_as_the_page_says_gets_what_another_client_starts_later() -> None:
    outlast, goes_on = Outlast("sqlite://", grace=0.0), asyncio.Event()

    @outlast.worker("chat")
    async def chat(run: ActiveRun) -> None:
        await run.emit("a word")
        if run.input == "r2":
            await goes_on.wait()

    async with outlast:
        thread = Thread(outlast)
        reading = asyncio.create_task(thread.follow(last="r4"))
        await thread.start("r1")
        await thread.start("elsewhere", thread="t2")
        await thread.until("r1", "run.completed")
        await thread.start("r2", whole=False)
        await thread.until("r2", "text")  # live: it is still going on
        assert ("r2", "run.completed") not in thread.seen
        goes_on.set()
        await thread.until("r2", "run.completed")
        await thread.start("r3")
        await thread.start("r4")
        await reading
    kinds = ("run.started", "text", "run.completed")
    assert thread.seen == [(id, kind) for id in ("r1", "r2", "r3", "r4") for kind in kinds]
