"""The least that a server can do with an event: commit it with sqlite3 and write it to the reader's socket."""

import asyncio
import json
import sqlite3
import sys
import time

from bench.append import CHAIN, INSERT, MOVE, SCHEMA
from bench.process import greet
from bench.record import PACE, say
from outlast.log.event import JSON_TYPE


class Bare:
    """Answers every request with a paced run; `path` is its database."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(SCHEMA)
        self._connection.execute("INSERT INTO logs VALUES (0, 0, ?, 0, 0)", (CHAIN,))
        self._seq = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Commit and write as many events as the request asks for."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        asked = json.loads(await reader.readexactly(int(length.partition(b":")[2])))
        writer.write(b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for number in range(asked["input"]["events"]):
            await asyncio.sleep(PACE)
            said = {"number": number, "at": time.monotonic_ns(), "text": say(number)}
            payload = json.dumps(said).encode()
            self._commit(payload)
            writer.write(b"event: text\nid: %d\ndata: %b\n\n" % (self._seq, payload))
        await writer.drain()
        writer.close()

    def _commit(self, payload: bytes) -> None:
        self._seq += 1
        connection, now = self._connection, time.time()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, (self._seq, CHAIN, "text", JSON_TYPE, 1, now, payload))
        connection.execute(MOVE, (self._seq, CHAIN, len(payload), now, 0))
        connection.execute("COMMIT")


async def main(path: str) -> None:
    """Serve until killed."""
    server = await asyncio.start_server(Bare(path).answer, "127.0.0.1", 0)
    greet(server.sockets[0])
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
