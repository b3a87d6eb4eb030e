"""A server that is not ours: answers over real sockets by script, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from outlast.wire.native import greeting

Answer: TypeAlias = tuple[int, Any] | None
"""A status and a body: bytes as they are, anything else as JSON. None drops the connection."""
GREETING: Answer = (200, greeting(boot_id="peer", heartbeat=10.0))
"""What says who is there, to whoever asks: no answer of a script is spent on it."""


class Peer:
    """Gives one answer after the other, the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Remember a request and return its answer."""
        if path.endswith("/session"):
            return GREETING
        self.asked.append((method, path, json.loads(body) if body else None))
        self.headers.append(headers)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def served(peer: Peer) -> Iterator[Peer]:
    """Let `peer` answer at `peer.url`; a GET that accepts an event stream is answered as one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = peer.answer(self.command, self.path, body, headers)
            if answer is not None:
                said = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
                self.send_response(answer[0])
                self.send_header("content-type", headers.get("accept", ""))
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        do_POST = do_DELETE = do_GET  # noqa: N815 - the names are the server's

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # closing it waits for the answers that are still under way

    with Server(("127.0.0.1", 0), Handler) as server:
        peer.url = f"http://127.0.0.1:{server.server_port}/agents"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield peer
        finally:
            server.shutdown()
            thread.join()
