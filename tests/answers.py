"""What a `ScriptedPeer` answers in most tests: a document, and who it is."""

from outlast.log.event import JSON, encode_json
from outlast.testing.peer import Answer
from outlast.wire import native


def said(document: JSON, status: int = 200) -> Answer:
    """Return a document as an answer."""
    return Answer(status=status, body=[encode_json(document)])


GREETING = said(native.greeting(boot_id="b00t", heartbeat=10.0))
"""What says who is there."""
