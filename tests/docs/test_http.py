"""The HTTP reference names every member that is told, and none that is not."""

import re

import pytest
from httpx2 import AsyncClient

from docs.draw import PAGES
from outlast import Outlast
from outlast.client.asgi import StreamingTransport
from outlast.lineage import Entry, Kind
from outlast.log.cursor import Cursor
from outlast.log.limits import Usage
from outlast.recovery import RecoveryPolicy
from outlast.stores.base import Head
from outlast.wire.lineage import lineage_document
from outlast.wire.status import status_document
from tests.stage import row

RUN = row()


def named(heading: str, page: str | None = None) -> list[str]:
    """Read the members out of the first table under a heading."""
    text = (PAGES / "http.md").read_text() if page is None else page
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = section.partition("| member | says |")[2].partition("\n\n")[0]
    return re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))


@pytest.mark.behaviour("F17")
def test_every_member_of_the_status_document_is_told() -> None:
    head = Head(cursor=Cursor(0, b"\x01" * 8), first=1, usage=Usage(events=0, bytes=0, opened_at=0.0), sealed=False)
    document = status_document(RUN, head, policy=RecoveryPolicy(), now=0.0)
    assert sorted(named("The status document")) == sorted(document)


def test_every_member_of_a_lineage_is_told() -> None:
    entry = Entry(epoch=1, claim="c", node="n", at=0.0, kind=Kind.CLAIM, cause=None, calls=0)
    (told,) = lineage_document(RUN, [entry])["lineage"]  # type: ignore[misc, union-attr]
    assert named("Lineage") == list(told)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_every_member_of_the_health_document_is_told() -> None:
    async with Outlast("sqlite://") as outlast, AsyncClient(transport=StreamingTransport(outlast.app)) as client:
        document = (await client.get("http://localhost/healthz")).json()
    (row,) = re.findall(r"^\| `GET /healthz` .*", (PAGES / "http.md").read_text(), re.MULTILINE)
    assert document.keys() <= set(re.findall(r"`(\w+)`", row))


# ---- this check can fail ----


def test_a_member_that_is_not_told_is_missed() -> None:
    assert named("Lineage", "\n## Lineage\n\n| member | says |\n|---|---|\n| `a`, `b` | `c` |\n\n`d`") == ["a", "b"]
