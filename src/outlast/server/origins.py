"""Decides which pages of other origins may use the routes, and tells browsers so (CORS).

Rules:
1. Origins are named exactly, by the operator. No pattern, no `*`, no `null`: with credentials each of them is a way in.
2. Once any is named, every answer varies by origin, or a cache would hand one page what another may read.
3. Nothing of a request is repeated but an origin that is one of the names.
"""

import re
from collections.abc import Collection
from http import HTTPStatus
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Send

from outlast.errors import SettingsError

HEADERS: Final = "authorization, content-type, if-none-match, last-event-id, traceparent"
"""Headers a page may send besides those that every page may."""
EXPOSED: Final = "etag, location, outlast-run, retry-after"
"""Headers of answers a page may read besides those that every page may."""
REMEMBERED: Final = "600"
"""Seconds a browser need not ask again: as long as the strictest of them allows."""

_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


def check(name: str) -> str:
    """Return an origin as browsers write it. Raises `SettingsError`."""
    written = name.lower()
    if _ORIGIN.fullmatch(written) is None:
        raise SettingsError(
            "Each of `origins` is a scheme, a host and perhaps a port, such as https://app.example or "
            "http://localhost:3000: no path, no slash at the end, no pattern."
        )
    return written


class Origins:
    """The origins that were named; raises `SettingsError` for a name that is none."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(map(check, names))

    def names(self, connection: HTTPConnection) -> bool:
        """Say whether a request comes from a page of one of these origins."""
        return self._named(connection) is not None

    def preflight(self, connection: HTTPConnection, methods: Collection[str]) -> Response | None:
        """Return the answer to a browser that asks before it sends; None for any other request."""
        asks = connection.scope["method"] == "OPTIONS" and "access-control-request-method" in connection.headers
        if not asks or not self.names(connection):
            return None
        headers = {
            "access-control-allow-methods": ", ".join(sorted(methods)),
            "access-control-allow-headers": HEADERS,
            "access-control-max-age": REMEMBERED,
        }
        return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)

    def tell(self, connection: HTTPConnection, send: Send) -> Send:
        """Return a `send` that tells the browser whether its page may read the answer."""
        if not self._names:
            return send
        more = [(b"vary", b"origin")]
        if (origin := self._named(connection)) is not None:
            more += [
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-allow-credentials", b"true"),
                (b"access-control-expose-headers", EXPOSED.encode()),
            ]

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return telling

    def _named(self, connection: HTTPConnection) -> str | None:
        said = connection.headers.getlist("origin")
        return said[0] if len(said) == 1 and said[0] in self._names else None
