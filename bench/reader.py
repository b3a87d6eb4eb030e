"""A process that reads one stream in one of the ways there are, and tells what its reading took.

`python -m bench.reader KIND URL [FOLDER]`. The CPU is counted from the first event on, that of the whole process;
loading and connecting are not. What was read is kept as it came, and looked at when the clock has stopped.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import httpx2
from httpx_sse import aconnect_sse

import outlast
from bench.premade import RUN, TYPE
from bench.process import WITHIN
from bench.record import digest
from outlast.log.event import encode_json
from outlast.wire.sse import Message, Parser

PART: Final = 64 * 1024
"""Bytes asked of the socket at once, as httpx2 does."""


class Clock:
    """The CPU that the process spends from the first event to the end."""

    def __init__(self) -> None:
        self._began = 0.0
        self.seconds = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._began = time.process_time()

    def stop(self) -> None:
        """Count no further."""
        self.seconds = time.process_time() - self._began


async def ours(url: str, clock: Clock) -> list[bytes]:
    """Follow the run, as an application does."""
    payloads: list[bytes] = []
    async for received in outlast.follow(url, RUN):
        assert isinstance(received, outlast.ReceivedEvent), "there is no gap"
        if not payloads:
            clock.begin()
        if received.is_terminal:
            clock.stop()
        else:
            payloads.append(received.payload)
    return payloads


async def parser(url: str, clock: Clock) -> list[bytes]:
    """Read a bare socket with our own parser, and do nothing else: no loop, no HTTP, no supervision."""
    place, heard, reading = urlsplit(url), list[Message](), Parser()
    with socket.create_connection((place.hostname or "", place.port or 80), timeout=WITHIN) as connection:
        connection.sendall(f"GET /runs/{RUN}/events HTTP/1.0\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(PART)
        heard += reading.feed(head.partition(b"\r\n\r\n")[2])
        clock.begin()
        while part := connection.recv(PART):
            heard += reading.feed(part)
        clock.stop()
    return payloads_in(heard)


async def raw(url: str, clock: Clock) -> list[bytes]:
    """Take the bytes from httpx2 and look at none of them."""
    parts: list[bytes] = []
    async with (
        httpx2.AsyncClient(timeout=WITHIN) as client,
        client.stream("GET", f"{url}/runs/{RUN}/events") as response,
    ):
        async for part in response.aiter_raw():
            if not parts:
                clock.begin()
            parts.append(part)
        clock.stop()
    return payloads_in(Parser().feed(b"".join(parts)))


async def httpx_sse(url: str, clock: Clock) -> list[bytes]:
    """Read with httpx-sse."""
    heard: list[tuple[str, str]] = []
    async with (
        httpx.AsyncClient(timeout=WITHIN) as client,
        aconnect_sse(client, "GET", f"{url}/runs/{RUN}/events") as source,
    ):
        async for event in source.aiter_sse():
            if not heard:
                clock.begin()
            heard.append((event.event, event.data))
        clock.stop()
    return [data.encode() for type, data in heard if type == TYPE]


async def langgraph(url: str, clock: Clock) -> list[bytes]:
    """Join the run with the SDK of LangGraph."""
    sdk: Any = import_module("langgraph_sdk")  # from a folder of its own, when it is asked for
    heard: list[tuple[str, Any]] = []
    async with sdk.get_client(url=url, api_key=None) as client:
        async for part in client.runs.join_stream("bench", RUN):
            if not heard:
                clock.begin()
            heard.append((part.event, part.data))
        clock.stop()
    return [encode_json(data) for type, data in heard if type == TYPE]


KINDS: Mapping[str, Callable[[str, Clock], Coroutine[None, None, list[bytes]]]] = {
    "ours": ours,
    "parser": parser,
    "raw": raw,
    "httpx-sse": httpx_sse,
    "langgraph": langgraph,
}


def payloads_in(messages: Iterable[Message]) -> list[bytes]:
    """Return what the frames of the run's own events carry."""
    return [message.data for message in messages if message.event == TYPE]


def main(kind: str, url: str, *folders: str) -> None:
    """Read the stream, and tell how many events there were, which, and the seconds of CPU."""
    sys.path.extend(folders)
    clock = Clock()
    payloads = asyncio.run(KINDS[kind](url, clock))
    print(json.dumps({"events": len(payloads), "digest": digest(payloads), "cpu": clock.seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
