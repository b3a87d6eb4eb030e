"""The demo agents' tools as a model and a reader see them: their schemas, and the events that tell of their use."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final, TypeAlias, cast

from outlast.cli import examples, library
from outlast.log.event import JSON, Event

Fact: TypeAlias = "library.Docs | library.Names | library.Source | list[examples.Example]"
"""What a tool finds."""

_MODULE: Final = {"type": "string", "description": "A module of the Python standard library, such as heapq"}
_NAME: Final = {"type": "string", "description": "A public function or class of the module, such as merge"}

TOOLS: Final[Mapping[str, tuple[Callable[..., Fact], str, Mapping[str, Mapping[str, str]]]]] = {
    "read_docs": (library.read_docs, "Read what a module says about itself.", {"module": _MODULE}),
    "list_names": (library.list_names, "List the public names of a module.", {"module": _MODULE}),
    "read_source": (
        library.read_source,
        "Read the signature, summary and first lines of one function or class.",
        {"module": _MODULE, "name": _NAME},
    ),
    "run_examples": (
        examples.run_examples,
        "Run the documented examples of one function or class and see what they answer.",
        {"module": _MODULE, "name": _NAME},
    ),
}
"""Each tool's function, what it is for, and its parameters, all of them required text."""


def schemas() -> list[JSON]:
    """Return the tools as an OpenAI-compatible endpoint takes them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool,
                "description": purpose,
                "parameters": {"type": "object", "properties": parameters, "required": list(parameters)},
            },
        }
        for tool, (_, purpose, parameters) in TOOLS.items()
    ]


def use(tool: str, arguments: str) -> JSON:
    """Use a tool as a model asks for it, with `arguments` as JSON text.

    What is wrong with the question is an answer too, `{"error": …}`, so that the model can do better.
    """
    if tool not in TOOLS:
        return {"error": f"there is no such tool; there are {', '.join(TOOLS)}"}
    function, _, parameters = TOOLS[tool]
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        return {"error": "the arguments are not JSON"}
    texts = _texts(given, list(parameters))
    if texts is None:
        return {"error": f"the arguments are {', '.join(parameters)}, each a text"}
    try:
        return as_json(function(**texts))
    except library.ModuleRefused as refusal:
        return {"error": str(refusal)}


def as_json(fact: Fact) -> JSON:
    """Return what a tool found as JSON."""
    return [asdict(example) for example in fact] if isinstance(fact, list) else asdict(fact)


def called(number: int, tool: str, arguments: JSON) -> Event:
    """Tell of a tool being called; `number` pairs the call with its answer."""
    return Event("tool.call", {"id": str(number), "tool": tool, "arguments": arguments})


def answered(number: int, tool: str, result: JSON) -> Event:
    """Tell what the tool answered."""
    return Event("tool.result", {"id": str(number), "tool": tool, "result": result})


def _texts(given: object, names: list[str]) -> dict[str, str] | None:
    if not isinstance(given, dict):
        return None
    found = {name: cast("dict[str, object]", given).get(name) for name in names}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return texts if len(texts) == len(names) else None
