import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from outlast.cli import library
from outlast.cli.explainer import ENOUGH, PACE, explain, words
from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor
from outlast.log.event import JSON, Event, Said, coerce
from outlast.run import Run
from outlast.workers.base import ActiveRun

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Unused:
    async def put(self, event: Event) -> int:
        raise AssertionError("this worker yields")

    async def durable(self, number: int) -> Cursor:
        raise AssertionError("this worker yields")


def active(given: JSON) -> ActiveRun:
    row = Run(owner="", id="r", log="l", worker="explain", input=json.dumps(given).encode(), digest=b"")
    return ActiveRun(row, Unused(), stopping=lambda: False)


async def told(given: JSON) -> list[Event]:
    return [coerce(said) async for said in explain(active(given))]


def text(events: list[Event]) -> str:
    return "".join(str(event.data) for event in events if event.type == "text")


def tool_events(events: list[Event], kind: str) -> list[dict[str, object]]:
    return [json.loads(event.payload) for event in events if event.type == kind]


async def test_an_explanation_plans_reads_tries_and_sums_up() -> None:
    events = await told({"module": "heapq", "pace": 0})
    said = text(events)
    assert said.startswith("Let me explain heapq, ")
    assert "Heap queue algorithm (a.k.a. priority queue)." in said
    assert "8 functions (heappush, heappop, " in said
    assert "    [0, 1, 2, 3, 4, 5, 5, 7, 8, 10, 15, 20, 25]\n" in said
    assert said.endswith("    python -m pydoc heapq")
    used = [call["tool"] for call in tool_events(events, "tool.call")]
    assert used[:4] == ["read_docs", "list_names", "read_source", "run_examples"]


async def test_every_tool_call_is_answered_before_the_next() -> None:
    events = [event for event in await told({"module": "collections", "pace": 0}) if event.type.startswith("tool.")]
    assert [event.type for event in events] == ["tool.call", "tool.result"] * (len(events) // 2)
    calls, results = tool_events(events, "tool.call"), tool_events(events, "tool.result")
    assert [call["id"] for call in calls] == [result["id"] for result in results]
    assert len({call["id"] for call in calls}) == len(calls) >= 4


async def test_text_comes_word_by_word() -> None:
    events = await told({"module": "heapq", "pace": 0})
    assert max(len(str(event.data).split()) for event in events if event.type == "text") == 1


def test_words_put_together_are_the_text_again() -> None:
    sample = "One  two,\n\n    three()\n four \n"
    assert "".join(words(sample)) == sample
    assert words(sample) == ["One", "  two,", "\n\n    three()", "\n four", " \n"]


async def test_the_same_input_is_explained_the_same_way() -> None:
    assert await told({"module": "statistics", "pace": 0}) == await told({"module": "statistics", "pace": 0})


async def test_another_module_is_explained_differently() -> None:
    first, second = text(await told({"module": "json", "pace": 0})), text(await told({"module": "difflib", "pace": 0}))
    assert "JavaScript Object Notation" in first
    assert "JavaScript Object Notation" not in second


@pytest.mark.parametrize("module", ["heapq", "json", "textwrap", "statistics", "difflib", "argparse", "itertools"])
async def test_an_explanation_takes_long_enough_to_kill_the_server_and_no_minute(module: str) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await told({"module": module})
    assert 40 <= loop.time() - begun <= 60


async def test_the_pace_is_seconds_per_word() -> None:
    loop = asyncio.get_running_loop()
    spent: list[float] = []
    for pace in (PACE, 2 * PACE):
        begun = loop.time()
        await told({"module": "heapq", "pace": pace})
        spent.append(loop.time() - begun)
    assert spent[1] == pytest.approx(2 * spent[0])


@pytest.mark.parametrize("module", ["concurrent", "tomllib", "pathlib", "math", "this_is_not_one", "typing", "os"])
async def test_modules_with_much_or_little_to_say_are_bounded(module: str) -> None:
    if module == "this_is_not_one":
        with pytest.raises(library.ModuleRefused):
            await told({"module": module, "pace": 0})
        return
    events = await told({"module": module, "pace": 0})
    assert text(events).endswith(f"python -m pydoc {module}")
    assert len(text(events).split()) < 2 * ENOUGH


@pytest.mark.parametrize("module", ["hepq", "antigravity", "__main__", "turtle"])
async def test_a_module_that_cannot_be_explained_is_refused_in_the_text_too(module: str) -> None:
    said: list[Said] = []

    async def listen(explanation: AsyncIterator[Said]) -> None:
        async for part in explanation:
            said.append(part)  # noqa: PERF401 - what was said before the exception counts

    with pytest.raises(library.ModuleRefused, match="heapq"):
        await listen(explain(active({"module": module, "pace": 0})))
    assert len(said) == 1
    assert str(said[0]).startswith("I cannot explain this: ")
    assert "heapq" in str(said[0])


@pytest.mark.parametrize(
    "given",
    [
        *(None, "heapq", [], {}, {"module": None}, {"module": ["heapq"]}),
        *({"module": "heapq", "pace": pace} for pace in ("1", None, -0.1, 5.1, 1e9)),
    ],
)
async def test_an_input_of_another_shape_is_refused(given: JSON) -> None:
    with pytest.raises(InputInvalid):
        await told(given)
