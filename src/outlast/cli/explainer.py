"""The demo's own agent: explains a standard library module from what this machine's Python says about itself.

It works as an agent with a model does: it plans, calls tools, and talks while it goes. It needs no network and
no model, and the same input gives the same events, so a takeover begins it again and readers fold the rest away.
The input is `{"module": "heapq"}`, and optionally `"pace"`, in seconds per word.
"""

import asyncio
import re
import textwrap
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from outlast.cli import examples, library, tools
from outlast.errors import InputInvalid
from outlast.log.event import JSON

if TYPE_CHECKING:
    from outlast.log.event import Event
    from outlast.workers.base import ActiveRun

PACE: Final = 0.1
"""Seconds per word: quick to read along, slow enough that a person can kill the server in the middle."""

SLOWEST: Final = 5.0
"""Seconds per word that the input may ask for at most, so that a run has an end."""

THINKING: Final = 8
"""A tool call takes as long as this many words, so that the eye can follow it."""

ENOUGH: Final = 330
"""Words after which no further name is looked into: with tool calls and the summary, 40 to 60 seconds."""

NAMED: Final = 8
"""Names of one kind listed in running text before the rest is only counted."""

Part: TypeAlias = "str | Event"
Found = TypeVar("Found", bound=tools.Fact)


async def explain(run: "ActiveRun") -> AsyncGenerator[Part]:
    """Explain the module that `run.input` names, word by word, with `tool.call` and `tool.result` events.

    Raises `InputInvalid` for an input of another shape, and `library.ModuleRefused` for a module that cannot be
    explained, after saying so in the text with modules to ask for instead.
    """
    module = module_of(run.input)
    pace = _pace_of(run.input)
    try:
        library.find_module(module)
    except library.ModuleRefused as refusal:
        yield f"I cannot explain this: {refusal}."
        raise
    for part in Explanation(module).parts():
        for said in words(part) if isinstance(part, str) else [part]:
            yield said
            await asyncio.sleep(pace if isinstance(said, str) else pace * THINKING)


def module_of(given: JSON) -> str:
    """Return the module that a run's input names. Raises `InputInvalid`."""
    module = given.get("module") if isinstance(given, Mapping) else None
    if not isinstance(module, str):
        raise InputInvalid('The input names a module, such as {"module": "heapq"}.')
    return module


def words(text: str) -> list[str]:
    """Cut `text` into words, each with the white space before it; joined they are `text` again."""
    return re.findall(r"\s*\S+|\s+$", text)


class Explanation:
    """One explanation from start to end: which tools to call, and what to say about their answers."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._calls = 0
        self._said = 0
        self._speaking = False

    def parts(self) -> Iterator[Part]:
        """Yield paragraphs and tool events in order; each tool is called when its turn comes."""
        docs = yield from self._introduce()
        names = yield from self._survey()
        explained: list[str] = []
        for name in self._candidates(names):
            if self._said > ENOUGH:
                break
            explained.append(name)
            yield from self._look_into(name)
        yield from self._sum_up(docs, explained)

    def _introduce(self) -> Generator[Part, None, library.Docs]:
        yield from self._say(
            f"Let me explain {self._module}, with nothing but what the Python on this machine says about itself. "
            "The plan: read the module's own words, list what it offers, look into the most telling parts, "
            "try their documented examples, and sum up."
        )
        docs = yield from self._use(library.read_docs, module=self._module)
        if docs.text:
            yield from self._say(f"{self._module} introduces itself so:\n\n{docs.text}")
        else:
            yield from self._say("The module does not introduce itself, so its parts have to speak for it.")
        if docs.words_left > 0:
            yield from self._say(f"Its docstring goes on for another {docs.words_left} words.")
        return docs

    def _survey(self) -> Generator[Part, None, library.Names]:
        names = yield from self._use(library.list_names, module=self._module)
        offers = [
            f"{_counted(len(listed), one)} ({_listed(listed)})"
            for one, listed in (
                ("function", names.functions),
                ("class", names.classes),
                ("exception", names.exceptions),
                ("value", names.values),
                ("module", names.modules),
            )
            if listed
        ]
        if offers:
            yield from self._say(f"It offers {'; '.join(offers)}.")
        else:
            yield from self._say("It offers no public names at all.")
        return names

    def _candidates(self, names: library.Names) -> list[str]:
        """Choose what to look into: names with examples that can be tried first, then in the module's own order."""
        found = names.functions + names.classes
        return sorted(found, key=lambda name: not examples.has_examples(self._module, name))

    def _look_into(self, name: str) -> Iterator[Part]:
        source = yield from self._use(library.read_source, module=self._module, name=name)
        yield from self._say(_described(source))
        if examples.has_examples(self._module, name):
            session = yield from self._use(examples.run_examples, module=self._module, name=name)
            yield from self._say(_session(session))

    def _sum_up(self, docs: library.Docs, explained: list[str]) -> Iterator[Part]:
        written = _counted(docs.lines, "line") + " of Python" if docs.lines else "written in C"
        standing = f", standing on {_listed(docs.imports)}" if docs.imports else ""
        start = f"from {self._module} import {explained[0]}" if explained else f"import {self._module}"
        yield from self._say(
            f"In short: {self._module} is {written}{standing}. To try it yourself, begin with\n\n    {start}\n\n"
            f"and for all that I left out, ask\n\n    python -m pydoc {self._module}"
        )

    def _say(self, text: str) -> Iterator[str]:
        self._said += len(text.split())
        yield "\n\n" + text if self._speaking else text
        self._speaking = True

    def _use(self, tool: Callable[..., Found], **arguments: str) -> Generator[Part, None, Found]:
        self._calls += 1
        self._speaking = False
        yield tools.called(self._calls, tool.__name__, arguments)
        fact = tool(**arguments)
        yield tools.answered(self._calls, tool.__name__, tools.as_json(fact))
        return fact


def _pace_of(given: JSON) -> float:
    pace = given.get("pace", PACE) if isinstance(given, Mapping) else PACE
    if not isinstance(pace, int | float) or not 0 <= pace <= SLOWEST:
        raise InputInvalid(f"The pace is a number of seconds per word from 0 to {SLOWEST:g}.")
    return pace


def _counted(count: int, noun: str) -> str:
    plural = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{plural}"


def _listed(names: list[str]) -> str:
    if len(names) > NAMED + 1:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return ", ".join(names)


def _described(source: library.Source) -> str:
    summary = source.summary or "it has no description of its own"
    sentences = [f"{source.name}{source.signature or '(…)'} — {summary}{'' if summary[-1] in '.…!?' else '.'}"]
    if source.methods:
        sentences.append(f"Its methods are {_listed(source.methods)}.")
    if not source.lines:
        sentences.append(f"This {source.kind} is written in C, so there is no Python to show.")
    elif source.body:
        body = textwrap.indent("\n".join(source.body), "    ")
        sentences.append(f"It takes {_counted(source.lines, 'line')} and goes to work so:\n\n{body}")
    else:
        sentences.append(f"It takes {_counted(source.lines, 'line')} of Python.")
    return " ".join(sentences)


def _session(session: list[examples.Example]) -> str:
    lines: list[str] = []
    for example in session:
        first, *more = example.source.splitlines()
        lines += [f">>> {first}", *(f"... {line}" for line in more), *example.output.splitlines()]
    shown = textwrap.indent("\n".join(lines), "    ")
    if all(example.agrees for example in session):
        verdict = "This is what the documentation promises, to the letter."
    else:
        verdict = "That is not quite what its documentation says; this Python goes its own way here."
    return f"I ran its documented example on this machine:\n\n{shown}\n\n{verdict}"
