"""Rows *death*: a server is killed, and its run's reader waits for the next event.

The run is paced, so that its next event is never far; the reader follows it as programs do.
"""

import asyncio
import json
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from pathlib import Path
from urllib.parse import urlsplit

from bench.measure import Goal, Kind, Quantity, Row, Sample, check
from bench.process import outlast, serving
from bench.startup import installed
from outlast import ReceivedEvent, ReceivedGap, follow

SILENCE = "kill to next event"
ENDLESS = 1_000_000
"""Events of a run that does not end while it is looked at."""
BEFORE = 20
"""Events that its reader has when the server is killed."""


def restarted() -> Sample:
    """Kill a server and start it again at the same address."""
    with ExitStack() as stack, installed() as environ, tempfile.TemporaryDirectory() as folder:
        command = outlast(Path(folder) / "runs.db")
        first = stack.enter_context(serving(*command, environ=environ))
        port = str(urlsplit(first.url).port)

        def revive() -> None:
            first.kill()
            stack.enter_context(serving(*command, "--port", port, environ=environ))

        return asyncio.run(silence(first.url, start(first.url), revive))


def taken_over() -> Sample:
    """Kill the server that drives a run; another on the same file takes it over, and its reader is there."""
    with ExitStack() as stack, installed() as environ, tempfile.TemporaryDirectory() as folder:
        command = outlast(Path(folder) / "runs.db")
        driver = stack.enter_context(serving(*command, environ=environ))
        run = start(driver.url)
        asyncio.run(heard_of(driver.url, run))  # it drives the run before there is anybody else to do it
        other = stack.enter_context(serving(*command, environ=environ))
        return asyncio.run(silence(other.url, run, driver.kill))


def start(url: str) -> str:
    """Start an endless run and return its id."""
    body = json.dumps({"worker": "paced", "input": {"events": ENDLESS}}).encode()
    request = urllib.request.Request(f"{url}/runs", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(json.load(answer)["id"])


async def heard_of(url: str, run: str) -> None:
    """Return when a run has said something."""
    async with aclosing(follow(url, run)) as stream:
        await until(stream, "text")


async def silence(url: str, run: str, kill: Callable[[], None]) -> Sample:
    """Follow a run across `kill`, and return how long its reader was without what the next controller said."""
    async with asyncio.timeout(60), aclosing(follow(url, run)) as stream:
        seqs = [await until(stream, "text") for _ in range(BEFORE)]
        began = time.perf_counter()
        killing = asyncio.create_task(asyncio.to_thread(kill))
        restarted_at = await until(stream, "run.restarted")
        took = time.perf_counter() - began
        seqs += [await until(stream, "text")]
        await killing
    check(True, seqs[-2] < restarted_at < seqs[-1], "the order of what was said before and after")
    return {SILENCE: took}


async def until(stream: AsyncGenerator[ReceivedEvent | ReceivedGap], type: str) -> int:
    """Return the seq of the next event of this type."""
    async for each in stream:
        if isinstance(each, ReceivedEvent) and each.type == type:
            return each.seq
    check(type, None, "the next event")
    return 0


# ---- the rows -----------------------------------------------------------------------------------


def row(question: str, bound: float | None, side: Callable[[], Sample]) -> Row:
    """Return a row that one kill answers."""
    return Row(
        question=question,
        quantities={SILENCE: Quantity(unit="s", kind=Kind.DELAY)},
        ours=side,
        goals=[Goal(quantity=SILENCE, bound=bound)],
    )


def restart(share: float) -> Row:
    """Ask about a server that is started again at once."""
    del share  # it is one death whatever the load
    return row("A server is killed and started again at once: how long its reader hears nothing.", 2.0, restarted)


def takeover(share: float) -> Row:
    """Ask about another server on the same file."""
    del share
    return row(
        "A server is killed beside another on the same file: how long that one's reader hears nothing.", 2.0, taken_over
    )
