"""The page of examples/fastapi_chat in a real browser: it streams, is reloaded in the middle, and stops."""

import shutil
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.integration.programs import free_port
from tests.integration.test_chat import ANSWER, chat

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on this machine"),
]

PATIENCE = 60_000
"""Milliseconds that something may take to be seen: a busy machine's."""


async def ask(page: Page, text: str) -> None:
    await page.get_by_label("Your question").fill(text)
    await page.get_by_role("button", name="Ask").click()


async def test_the_page_streams_survives_its_reload_and_stops(tmp_path: Path) -> None:
    port = free_port()
    first = ANSWER.format(start="Berlin", end="Rome", far="1183 km").strip()
    async with chat(tmp_path, port, pace=0.1), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(f"http://localhost:{port}/")

        await ask(page, "How far is it from Berlin to Rome?")
        answers = page.locator(".answer")
        await expect(answers.first).to_contain_text("as the crow flies")
        assert (await answers.first.inner_text()).strip() != first, "it was to be reloaded in the middle"
        await page.reload()
        await expect(answers.first).to_have_text(first)
        await expect(page.locator(".tool").first).to_have_text("distance(Berlin, Rome) → 1183 km")
        await expect(page.locator(".question")).to_have_text(["How far is it from Berlin to Rome?"])

        await ask(page, "And to Madrid?")
        await expect(answers.nth(1)).to_contain_text("From Rome to Madrid")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".note")).to_have_text("Stopped.")
        await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        assert problems == []
        await browser.close()
