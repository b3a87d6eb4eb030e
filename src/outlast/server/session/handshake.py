"""What the handshake of a session said, and each of its exchanges says again: who asks, from where, and of whom.

An exchange is a request of HTTP to whoever looks at it, the application's hooks among them. Of its own it has what an
`Ask` can say, which is what is wanted; everything else stands in the handshake (A5, Z13).
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.types import Scope

from outlast.wire.session import ASKED, Ask

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}  # `send` does not raise when the client has left
_SCHEMES: Final[Mapping[str, str]] = {"ws": "http", "wss": "https"}
_OWN: Final = frozenset({"subprotocols", "extensions", "endpoint", "route"})
"""What a scope has as a WebSocket's."""
_HOP: Final = frozenset({"connection", "content-length", "te", "trailer", "transfer-encoding", "upgrade"})
"""Headers of the connection, and of a body that the handshake did not have."""
_SOCKET: Final = b"sec-websocket-"


class Handshake:
    """The handshake with this scope, a WebSocket's."""

    def __init__(self, scope: Scope) -> None:
        left_out = {name.encode() for name in ASKED | _HOP}
        self._headers = [
            (name, value)
            for name, value in scope["headers"]
            if name.lower() not in left_out and not name.lower().startswith(_SOCKET)
        ]
        self._scope = {name: value for name, value in scope.items() if name not in _OWN}
        self._scope |= {"type": "http", "asgi": _ASGI, "scheme": _SCHEMES.get(scope.get("scheme", "ws"), "http")}
        self._root: str = scope.get("root_path", "")

    def request(self, ask: Ask) -> Scope:
        """Return the scope of an exchange: a request by whoever made the handshake."""
        path, _, query = ask.path.partition("?")
        own: dict[str, Any] = {
            "method": ask.method,
            "path": self._root + unquote(path),
            "raw_path": (quote(self._root) + path).encode(),
            "query_string": query.encode(),
            "headers": [
                *self._headers,
                *((name.encode(), said.encode("latin-1")) for name, said in ask.headers.items()),
            ],
        }
        if "state" in self._scope:
            own["state"] = dict(self._scope["state"])  # each request has one of its own, as servers do it
        return {**self._scope, **own}
