"""The example of the page about security, as it stands there: a team that shares its runs, a viewer, an admin."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.client.asgi import StreamingTransport

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


async def test_the_example_lets_each_do_what_it_says() -> None:
    example: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0], example)
    outlast, app = example["outlast"], example["app"]
    async with (
        outlast,
        httpx2.AsyncClient(transport=StreamingTransport(app), base_url="http://localhost/agents") as client,
    ):

        async def ask(person: str, method: str, path: str, **said: Any) -> int:
            answer = await client.request(
                method, path, headers={"authorization": f"Bearer token-of-{person}"}, json=said or None
            )
            return answer.status_code

        run = {"worker": "chat", "input": "hi", "id": "r1"}
        assert await ask("nobody", "POST", "/runs", **run) == 401
        assert await ask("eve", "POST", "/runs", **run) == 403
        assert await ask("ann", "POST", "/runs", **run) == 201
        assert await ask("eve", "GET", "/runs/r1") == 200
        assert await ask("eve", "POST", "/runs/r1/stop") == 404
        assert await ask("root", "GET", "/runs/r1") == 404
        assert await ask("root", "GET", "/runs/r1?owner=team-7") == 200
        assert await ask("ann", "GET", "/runs?owner=ops") == 403
