"""Keeps what a client asks out of the logs of the packages that carry it: they tell every url, and a url names a run.

Only what is sent in a `discreet` block is kept quiet, whoever owns the client; the application's own requests are told
as ever. The same holds for the package that a bus is heard with: one that is in trouble is done without. Source: P18.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

BELOW: Final = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
    *(
        f"dbus_fast.{part}"
        for part in ("message_bus", "aio.message_bus", "aio.message_reader", "proxy_object", "send_reply")
    ),
)
"""The loggers of these packages, each with its own name: a filter on a parent sees nothing of them."""

_IS_OURS: Final = ContextVar("is_ours", default=False)


@contextmanager
def discreet() -> Generator[None, None, None]:
    """Let nothing be logged of what is sent in this block."""
    token = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(token)


def _is_others(_record: logging.LogRecord) -> bool:
    return not _IS_OURS.get()


for _name in BELOW:
    logging.getLogger(_name).addFilter(_is_others)  # once, with this module: it is of no effect anywhere else
