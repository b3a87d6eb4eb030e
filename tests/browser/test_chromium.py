"""The page in a real browser, over a real server: what a person sees, types and presses."""

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn

from outlast import ActiveRun, Outlast
from outlast.log.event import Event
from outlast.stores.sqlite import SQLiteStore
from tests.stage import Stage

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
MANY = 40_000
BURST = 5_000
PAYLOAD = '<img src=x onerror="document.title=1"><script>document.title="owned"</script>'
POLL = 50  # milliseconds between two looks
PATIENCE = 30_000  # milliseconds until what a test waits for counts as lost

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
else:
    Browser = Page = Any

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on this machine")


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Let the server and the browser outlive single tests: the module ends them."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("page") / "runs.db"
    with serving(file) as url:
        yield url


async def lay(file: Path) -> None:
    """Put a long log into a store: no worker and no reader has to come along for it."""
    store = SQLiteStore(file)
    await store.open()
    try:
        stage = Stage(store)
        run = await stage.active("r-many", thread="thread-r-many")
        for first in range(0, MANY, BURST):
            await stage.say(run, *(f"w{number} " for number in range(first, first + BURST)))
        await stage.settle(run)
    finally:
        await store.close()


@contextmanager
def serving(file: Path) -> Iterator[str]:
    """Serve an application of two workers from a thread of its own, with some runs in it."""
    outlast = Outlast(store=f"sqlite:///{file}", grace=0.5, signals=False)

    @outlast.worker("tell")
    async def tell(run: ActiveRun) -> AsyncIterator[str | Event]:
        yield PAYLOAD
        yield Event("odd.kind", {PAYLOAD: PAYLOAD})
        yield Event("tool.call", {"id": "1", "tool": PAYLOAD, "arguments": {"a": PAYLOAD}})

    @outlast.worker("wait")
    async def wait(run: ActiveRun) -> AsyncIterator[str]:
        yield "waiting"
        await asyncio.Event().wait()

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(outlast.app, lifespan="off", log_level="error", ws="none", timeout_graceful_shutdown=1)
    )
    ready = threading.Event()

    async def main() -> None:
        await lay(file)
        async with outlast:
            for worker, id in (("tell", "r-tell"), ("wait", "r-wait"), ("wait", "r-stop")):
                await outlast.start(worker, None, id=id, thread=f"thread-{id}")
            ready.set()
            await server.serve(sockets=[listener])

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 800}, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    opened.goto(address)
    until(opened, "document.querySelectorAll('#runs li').length === 4")
    yield opened
    context.close()
    assert errors == []


def until(page: Page, condition: str) -> None:
    """Wait until `condition` is true; the page's policy lets nothing be evaluated inside it again and again."""
    for _ in range(PATIENCE // POLL):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(POLL)
    pytest.fail(f"never true: {condition}")


def shown(page: Page) -> list[str]:
    return sorted(page.eval_on_selector_all("#runs a", "links => links.map((link) => link.hash.slice(1))"))


def test_runs_are_filtered_by_text_and_by_status(page: Page) -> None:
    page.fill("#filter", "THREAD-r-w")
    assert shown(page) == ["r-wait"]
    page.fill("#filter", "tell")
    assert shown(page) == ["r-tell"]
    page.fill("#filter", "nothing is called so")
    assert shown(page) == []
    assert page.inner_text("#none") == "No run fits the filter."
    page.fill("#filter", "")
    page.select_option("#status", "completed")
    until(page, "[...document.querySelectorAll('#runs a')].some((link) => link.hash === '#r-tell')")
    assert "r-wait" not in shown(page)


def test_the_keyboard_walks_shows_filters_and_helps(page: Page) -> None:
    page.keyboard.press("j")
    page.keyboard.press("j")
    focused = page.evaluate("document.activeElement.hash")
    page.keyboard.press("Enter")
    until(page, f"location.hash === {focused!r}")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("jk?s")  # typed, and no key of the page
    assert page.input_value("#filter") == "jk?s"
    page.fill("#filter", "")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.evaluate("document.querySelector('#keys').open")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    until(page, "location.hash === ''")


@pytest.mark.attack("Z15")
def test_what_a_run_says_stays_text(page: Page, address: str) -> None:
    page.goto(f"{address}#r-tell")
    page.wait_for_selector("#log .note.good")
    assert PAYLOAD in page.inner_text("#log")
    assert page.eval_on_selector_all("#run img, #run script", "found => found.length") == 0
    assert page.title() == "r-tell · Outlast"


def test_a_run_that_nobody_reads_is_found_and_stopped_from_the_page(page: Page, address: str) -> None:
    """A detached run stays listable and stoppable: case 25."""
    page.goto(f"{address}#r-stop")
    page.wait_for_selector("#stop:not([hidden])")
    page.wait_for_selector("#log .text")
    page.keyboard.press("s")
    page.keyboard.press("Enter")  # the first answer on offer lets it go on
    assert page.inner_text("#state") == "active"
    page.keyboard.press("s")
    page.click("#stopping .danger")
    page.wait_for_selector("#state[data-state=cancelled]")
    assert page.is_hidden("#stop")


def test_a_question_about_one_run_is_withdrawn_when_another_is_shown(page: Page, address: str) -> None:
    page.goto(f"{address}#r-wait")
    page.wait_for_selector("#stop:not([hidden])")
    page.keyboard.press("s")
    page.wait_for_selector("#stopping[open]")
    page.evaluate("location.hash = 'r-tell'")
    page.wait_for_selector("#stopping:not([open])", state="attached")
    page.wait_for_function("document.title.startsWith('r-tell')")
    assert page.evaluate("fetch('runs/r-wait').then(answer => answer.json()).then(run => run.stop_requested)") is False


def test_the_timeline_tells_each_claim_in_a_drawing_and_in_words(page: Page, address: str) -> None:
    page.route("**/runs/r-wait/lineage", lambda route: route.fulfill(json=LINEAGE))
    page.goto(f"{address}#r-wait")
    page.wait_for_selector("#chart line.takeover", state="attached")  # a line has no width to be seen by
    assert page.eval_on_selector_all("#chart rect.bar", "found => found.length") == 2
    assert "1 takeover" in str(page.get_attribute("#chart", "aria-label"))
    assert page.text_content("#chart .label.takeover") == "takeover (crash)"
    page.click("#timeline summary")
    lines = page.eval_on_selector_all("#lineage li", "items => items.map((item) => item.textContent)")
    assert [line.split(" · ")[:3] for line in lines] == [
        ["epoch 1", "claimed", "node node-one"],
        ["epoch 2", "takeover (crash)", "node node-two"],
    ]
    assert page.eval_on_selector_all("#budget meter", "meters => meters.map((meter) => meter.max)") == [5, 20, 64, 50]


def test_colours_follow_the_system_until_a_person_chooses(browser: Browser, address: str) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(address)
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(21, 25, 24)"
    page.click("#theme")
    assert page.evaluate(colour) == "rgb(251, 251, 249)"
    page.reload()
    assert page.evaluate(colour) == "rgb(251, 251, 249)"
    assert page.get_attribute("#theme", "aria-label") == "Colours: light"
    context.close()


WIDTH = """() => {
  for (const told of document.querySelectorAll("[role=status]")) told.textContent = "with much to say ".repeat(9);
  return document.documentElement.scrollWidth;
}"""


def test_the_page_fits_the_narrowest_screen_whatever_it_says(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 640})
    page = context.new_page()
    page.goto(f"{address}#r-wait")
    page.wait_for_selector("#timeline:not([hidden])")
    assert page.evaluate(WIDTH) <= 360
    page.click(".back")
    page.wait_for_selector("#runs a")
    assert page.evaluate(WIDTH) <= 360
    context.close()


def test_forty_thousand_events_come_in_batches_with_frames_between_them(page: Page) -> None:
    page.evaluate(COUNT)
    page.evaluate("location.hash = '#r-many'")
    page.wait_for_selector("#log .note.good")
    batches, apart = page.evaluate("[window.batches, window.apart]")
    assert page.evaluate("document.querySelector('#log .text').textContent.length") == sum(
        len(f"w{number} ") for number in range(MANY)
    )
    assert batches >= MANY // 2_000  # no more than this many events at once
    assert batches - 1 <= apart  # and a frame of the browser between any two


COUNT = """() => {
  window.batches = window.apart = window.frames_ = 0;
  let at = -1;
  const count = () => { window.frames_ += 1; requestAnimationFrame(count); };
  requestAnimationFrame(count);
  new MutationObserver(() => {
    window.batches += 1;
    if (window.frames_ !== at) window.apart += 1;
    at = window.frames_;
  }).observe(document.querySelector('#log'), { childList: true, subtree: true, characterData: true });
}"""
LINEAGE = {
    "id": "r-wait",
    "log": "l",
    "epoch": 2,
    "lineage": [
        {
            "epoch": epoch,
            "claim": f"c{epoch}",
            "node": node,
            "at": f"2026-01-02T03:04:0{epoch}.000Z",
            "kind": kind,
            "cause": cause,
            "calls": epoch - 1,
        }
        for epoch, node, kind, cause in ((1, "node-one", "claim", None), (2, "node-two", "takeover", "crash"))
    ],
}
