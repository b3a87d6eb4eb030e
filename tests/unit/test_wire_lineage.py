"""A lineage as it is told: names and numbers, times for people, and nothing that it does not know."""

from outlast.lineage import Entry, Kind
from outlast.run import Cause, Run
from outlast.wire.lineage import lineage_document

RUN = Run(owner="ann", id="r1", log="log-1", worker="chat", input=b"", digest=b"", epoch=2)
CLAIM = Entry(epoch=1, claim="c1", node="n1", at=0.0, kind=Kind.CLAIM, cause=None, calls=0)
TAKEOVER = Entry(epoch=2, claim="c2", node="n2", at=1.5, kind=Kind.TAKEOVER, cause=Cause.CRASH, calls=1)


def test_each_entry_is_told_and_the_owner_is_not() -> None:
    said = lineage_document(RUN, [CLAIM, TAKEOVER])
    first = {"epoch": 1, "claim": "c1", "node": "n1", "at": "1970-01-01T00:00:00.000Z", "kind": "claim"}
    second = {"epoch": 2, "claim": "c2", "node": "n2", "at": "1970-01-01T00:00:01.500Z", "kind": "takeover"}
    assert said == {
        "id": "r1",
        "log": "log-1",
        "epoch": 2,
        "lineage": [{**first, "cause": None, "calls": 0}, {**second, "cause": "crash", "calls": 1}],
    }
