"""Serves the static page: the files that lie in the room `web`, and no other path whatever it is spelt like.

The page shows what workers say, as text alone; the headers see to it that nothing in it could do more (Z15).
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from outlast.server.routes.door import Door, OpenDoor

WEB: Final = Path(__file__).parents[2] / "web"
"""What the wheel brings."""
INDEX: Final = "index.html"
KINDS: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""What is served, by the end of its name."""
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class StaticPage:
    """Answers `GET /` and one path per file of `folder`, all read when this is made."""

    def __init__(self, folder: Path = WEB) -> None:
        self._folder = folder

    def doors(self) -> list[Door]:
        """Return the doors of this part."""
        return [OpenDoor(method="GET", path=path, answer=file) for path, file in self._files()]

    def _files(self) -> Iterator[tuple[str, "_File"]]:
        for file in sorted(self._folder.iterdir(), key=lambda file: file.name):
            kind = KINDS.get(file.name[file.name.rfind(".") :])
            if kind is not None and file.is_file():
                yield "/" if file.name == INDEX else f"/{file.name}", _File(file.read_bytes(), kind)


class _File:
    """One file, ready to be answered with."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._content = content
        self._headers = {**HEADERS, "etag": f'"{blake2b(content, digest_size=12).hexdigest()}"', "content-type": kind}

    async def __call__(self, _request: Request) -> ASGIApp:
        return Response(self._content, headers=self._headers)
