import re
from importlib.resources import files
from pathlib import Path

import pytest

from outlast.server.routes.page import StaticPage
from tests.stage import site, staged

pytestmark = pytest.mark.anyio

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def shipped() -> list[str]:
    return [file.name for file in files("outlast.web").iterdir() if file.name.endswith((".js", ".css", ".html"))]


@pytest.mark.attack("Z15")
async def test_every_file_of_the_page_is_served_under_the_policy() -> None:
    async with staged() as stage, site(stage) as here:
        assert {"index.html", "outlast.js"} <= set(shipped())
        for name in shipped():
            answer = await here.client.get("/" if name == "index.html" else f"/{name}")
            assert answer.status_code == 200
            assert answer.content == (files("outlast.web") / name).read_bytes()
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "set-cookie" not in answer.headers


async def test_a_file_has_its_kind() -> None:
    async with staged() as stage, site(stage) as here:
        assert (await here.client.get("/")).headers["content-type"] == "text/html; charset=utf-8"
        assert (await here.client.get("/outlast.js")).headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.attack("Z15")
async def test_the_page_holds_nothing_that_its_policy_forbids() -> None:
    html = (files("outlast.web") / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|https?://(?!www\.w3\.org)", html)


@pytest.mark.parametrize(
    "path",
    [
        "/__init__.py",
        "/index.html",
        "/%2e%2e/feed.py",
        "/..%2Fserver%2Ffeed.py",
        "/__pycache__",
        "/outlast.js/x",
        "/.js",
    ],
)
async def test_nothing_else_is_served_however_it_is_spelt(path: str) -> None:
    async with staged() as stage, site(stage) as here:
        assert (await here.client.get(path)).status_code == 404


def test_what_is_in_the_folder_decides_what_is_served(tmp_path: Path) -> None:
    for name in ("index.html", "a.js", "b.css", "c.svg", "notes.txt", "d.py", "js"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder.js").mkdir()
    assert [door.path for door in StaticPage(tmp_path).doors()] == ["/a.js", "/b.css", "/c.svg", "/"]
