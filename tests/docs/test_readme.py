"""The README's example, as it stands there, on a real server."""

import asyncio
import re
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from docs import draw

pytestmark = pytest.mark.anyio

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def block(language: str, containing: str) -> str:
    """Return the one block of this language that contains the text."""
    (found,) = [code for kind, code in BLOCKS if kind == language and containing in code]
    return found


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve `app` with uvicorn on a free port, and yield the port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    try:
        yield str(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await task


async def test_the_readmes_example_runs_and_its_run_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example: dict[str, Any] = {}
    exec(block("python", "FastAPI"), example)
    async with served(example["app"]) as port, httpx2.AsyncClient() as client:
        start = block("sh", "curl")
        url = re.findall(r"localhost:8000(/\S+)", start)[0]
        body = re.findall(r"-d '(.*?)'", start)[0]
        answer = await client.post(
            f"http://localhost:{port}{url}", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 201, answer.text

        follow = block("python", "import follow").replace("localhost:8000", f"localhost:{port}")
        exec("async def example():\n" + textwrap.indent(follow, "    "), example)
        await example["example"]()
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("run.started ")
    assert told[1:4] == ["text You ", "text said ", "text hello. "]
    assert told[4].startswith("run.completed ")


def test_the_pages_hold_what_the_code_says_now() -> None:
    stale = [page.name for page in draw.PAGES.glob("*.md") if draw.drawn(page.read_text()) != page.read_text()]
    assert stale == [], "python3 dev.py docs draws them anew"
