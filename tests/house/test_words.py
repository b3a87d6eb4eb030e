"""One word for one thing: the glossary's, in every name the source defines."""

import ast
import re
from collections.abc import Iterator

from tests.house import glossary, tree

# Words that other systems use for ours, in every room.
EVERYWHERE = {
    "bookmark": "cursor",
    "consumer": "reader",
    "execution": "run",
    "failover": "takeover",
    "janitor": "sweeper",
    "job": "run",
    "journal": "log",
    "leader": "controller",
    "orchestrator": "controller",
    "pod": "node",
    "producer": "worker",
    "publisher": "controller",
    "quota": "recovery budget",
    "reaper": "sweeper",
    "replica": "node",
    "subscriber": "reader",
    "watermark": "cursor",
    "workflow": "run",
}
# Words that mean something else in a shell (asyncio's tasks, SQLite's locks, a buffer's offsets), never down here.
GROUND = {"lock": "lease", "mutex": "lease", "session": "run", "task": "run"}
# Words that belong to some rooms alone.
ROOMS = {
    "conversation": ("thread", ["outlast.cli.endpoint"]),  # one with a model, inside a run
    "generation": ("epoch", ["outlast.client", "outlast.supervision", "outlast.testing"]),
    "heartbeat": (
        "lease",
        ["outlast.wire", "outlast.server", "outlast.client", "outlast.supervision", "outlast.assembly", "outlast.cli"],
    ),
    "offset": ("cursor", ["outlast.wire", "outlast.client", "outlast.stores"]),
    "session": (
        "run",
        ["outlast.wire", "outlast.client", "outlast.server", "outlast.assembly", "outlast.cli.explainer"],
    ),  # a WebSocket's, Python's
}
SPELT_OUT = {
    "buf": "buffer",
    "cb": "callback",
    "cfg": "settings",
    "cnt": "count",
    "conn": "connection",
    "ctx": "context",
    "evt": "event",
    "idx": "index",
    "mgr": "what it does",
    "msg": "message",
    "req": "request",
    "resp": "response",
    "tmp": "what it holds",
}

WORDS = [
    *("run", "thread", "log", "event", "cursor", "worker", "controller", "node", "lease", "epoch"),
    *("claim", "takeover", "hand-off", "release", "recovery budget", "settle", "outcome", "parked", "stop"),
    *("abort", "orphan", "sweeper", "gap", "follow", "supervisor", "link", "probe", "miss", "wakeup"),
    *("slow", "busy", "switching", "backoff", "blocked", "offline", "reader", "snapshot", "generation"),
]


def defined(syntax: ast.AST) -> Iterator[str]:
    """Find every name a file gives: modules' own, arguments, fields and attributes set."""
    for node in ast.walk(syntax):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def parts(name: str) -> set[str]:
    """Split a name into words in the singular, `RunJobs` and `run_jobs` alike."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {word.lower() for word in words} | {word.lower().removesuffix("s") for word in words}


def instead(module: str) -> dict[str, str]:
    """Tell which words a module may not use, and what to say instead."""
    words = EVERYWHERE | SPELT_OUT
    if tree.under(module, tree.contract("pure")["source_modules"]):
        words |= {word: better for word, better in GROUND.items() if word not in ROOMS}
    return words | {word: better for word, (better, rooms) in ROOMS.items() if not tree.under(module, rooms)}


def strange(module: str, syntax: ast.AST) -> list[str]:
    """Say which names of a module, its own among them, use a word for which the house has another."""
    words = instead(module)
    return [
        f"{module}: {name} (say {words[word]}, not {word})"
        for name in sorted({module.rpartition(".")[2], *defined(syntax)})
        for word in sorted(parts(name) & words.keys())
    ]


def test_names_are_in_the_words_of_the_glossary() -> None:
    found = [what for path in tree.modules() for what in strange(tree.dotted(path), tree.syntax(path))]
    assert not found, "\n".join(found)


def test_the_glossary_explains_every_word() -> None:
    assert not sorted(set(WORDS) - glossary.entries())


def test_what_is_to_be_said_instead_is_in_the_glossary() -> None:
    better = {*EVERYWHERE.values(), *GROUND.values(), *(word for word, _ in ROOMS.values())}
    assert better <= set(WORDS)


# ---- these tests can fail ----


def test_a_strange_word_is_found_in_every_kind_of_name() -> None:
    source = """
class RunJob:
    pods: int
    async def reap(self, ctx): self.watermark = 1
def fine(run): asyncio.create_task(job.start())
"""
    assert strange("outlast.server.readers.hub", ast.parse(source)) == [
        "outlast.server.readers.hub: RunJob (say run, not job)",
        "outlast.server.readers.hub: ctx (say context, not ctx)",
        "outlast.server.readers.hub: pods (say node, not pod)",
        "outlast.server.readers.hub: watermark (say cursor, not watermark)",
    ]


def test_a_strange_word_is_found_in_the_name_of_a_file() -> None:
    assert strange("outlast.assembly.journal", ast.parse("")) == [
        "outlast.assembly.journal: journal (say log, not journal)"
    ]


def test_a_word_of_the_shells_is_found_on_the_ground_floor_only() -> None:
    source = ast.parse("task = lock = 1")
    assert not strange("outlast.server.readers.hub", source)
    assert len(strange("outlast.run", source)) == len(("task", "lock"))


def test_a_word_of_one_room_is_found_in_another() -> None:
    source = ast.parse("generation = 1")
    assert not strange("outlast.client.stream", source)
    assert strange("outlast.lease", source)


def test_a_word_the_glossary_lacks_is_found() -> None:
    page = "| word | meaning |\n|---|---|\n| **run** | work |\n| **probe, miss** | **cursor** |\n"
    assert glossary.entries(page) == {"run", "probe", "miss"}
