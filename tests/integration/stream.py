"""A stream of 4 KB with frames of every kind, and the events that are in it."""

from outlast import Event
from outlast.log.cursor import chain, origin
from outlast.log.event import StoredEvent
from outlast.wire import native

TEXTS = [
    "plain",
    "héllo",
    "漢字",
    "\U0001f469\u200d\U0001f4bb",
    "line\nend\r\n\u2028",
    "lone \ud83d",
    "\x00",
    "x" * 300,
]
SAID = [
    Event("run.started", {"epoch": 1, "attempt": 1}),
    *(Event("text", f"{text} {number}") for number in range(5) for text in TEXTS),
    Event("audio", bytes(range(256)), content_type="audio/ogg"),
    Event("run.completed", {}),
]
PLACES = chain(origin("log"), SAID)
LOG = [StoredEvent(cursor=place, event=event, epoch=1, time=0.0) for place, event in zip(PLACES, SAID, strict=True)]
FRAMES = [native.event_frame(stored) for stored in LOG]
GREETING = native.greeting(boot_id="peer", heartbeat=10)
HELLO = native.hello(boot_id="peer", heartbeat=10, head=PLACES[-1])
WHOLE = HELLO + b"".join(FRAMES)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
