"""The page across a real death: the server is killed in the middle of a run and comes back at the same address."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

from tests.integration.programs import free_port, house
from tests.integration.readers import agree, log, start, whole

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60_000
"""Milliseconds that something may take to be seen: a busy machine's."""
STEPS = 4

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not on this machine"),
]


@pytest.mark.case(87)
async def test_the_page_goes_on_across_kill_9_and_shows_the_takeover_and_the_checkpoints(tmp_path: Path) -> None:
    port = free_port()
    asked: list[str] = []
    async with house(tmp_path) as servers, async_playwright() as playwright:
        doomed = await servers.serve(port=port)
        run = await start(doomed, "steps", STEPS)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        expect.set_options(timeout=PATIENCE)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        await page.goto(f"http://127.0.0.1:{port}/#{run}")
        said = [f"step {step}" for step in range(STEPS)]
        await expect(page.locator("#log .text")).to_have_text(said)  # the last is behind every checkpoint so far
        await expect(page.locator("#chart line.checkpoint")).to_have_count(STEPS - 1)

        await doomed.kill()
        await expect(page.locator("#server")).to_have_attribute("data-tone", "bad")
        server = await servers.serve(port=port)
        await expect(page.locator("#state")).to_have_attribute("data-state", "completed")
        await expect(page.locator("#chart line.checkpoint")).to_have_count(STEPS)
        await expect(page.locator("#chart line.takeover")).to_have_count(1)
        await expect(page.locator("#chart rect.bar")).to_have_count(2)
        await expect(page.locator("#chart")).to_have_attribute("aria-label", re.compile("1 takeover, completed"))
        await expect(page.locator("#server")).to_have_attribute("data-tone", "good")
        await page.get_by_text("Nodes").click()
        await expect(page.locator("#nodes li").filter(has_text="lease ends in")).to_have_count(1)
        await expect(page.locator("#log .text")).to_have_text(said)
        assert problems == []
        await browser.close()
        received, stored = await asyncio.gather(whole(server, run), log(server, run))
        agree(received, stored)
    checkpoints = [event["seq"] for event in stored if event["type"] == "run.checkpoint"]
    assert [event["data"]["keep"] for event in stored if event["type"] == "run.restarted"] == [checkpoints[-2]]
    assert any("types=run.checkpoint" in url for url in asked)
