import json

import pytest

from outlast.cli import library, tools


def test_every_tool_is_offered_with_its_parameters() -> None:
    offered = {schema["function"]["name"]: schema["function"] for schema in json.loads(json.dumps(tools.schemas()))}
    assert list(offered) == ["read_docs", "list_names", "read_source", "run_examples"]
    assert offered["read_source"]["parameters"]["required"] == ["module", "name"]
    assert all(schema["description"] for schema in offered.values())


def test_a_tool_answers_with_what_it_found() -> None:
    assert tools.use("read_docs", '{"module": "heapq"}') == tools.as_json(library.read_docs("heapq"))
    examples = tools.use("run_examples", '{"module": "heapq", "name": "merge"}')
    assert isinstance(examples, list)
    assert json.loads(json.dumps(examples))[0]["agrees"] is True


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("no_such_tool", "{}", "there is no such tool; there are read_docs, list_names, read_source, run_examples"),
        ("read_docs", "{", "the arguments are not JSON"),
        ("read_docs", "", "the arguments are module, each a text"),
        ("read_docs", "[]", "the arguments are module, each a text"),
        ("read_docs", '{"module": 7}', "the arguments are module, each a text"),
        ("read_source", '{"module": "heapq"}', "the arguments are module, name, each a text"),
        ("read_docs", '{"module": "os.system"}', "that module cannot be imported on this machine"),
        ("read_source", '{"module": "heapq", "name": "__import__"}', "the module has no public function"),
    ],
)
def test_a_wrong_question_is_answered_with_what_is_wrong(tool: str, arguments: str, told: str) -> None:
    answer = tools.use(tool, arguments)
    assert isinstance(answer, dict)
    assert str(answer["error"]).startswith(told)


def test_more_arguments_than_asked_for_are_ignored() -> None:
    assert tools.use("list_names", '{"module": "heapq", "verbose": true}') == tools.use(
        "list_names", '{"module": "heapq"}'
    )


def test_a_call_and_its_answer_carry_the_same_id() -> None:
    called = tools.called(3, "read_docs", {"module": "heapq"})
    answered = tools.answered(3, "read_docs", {"text": "…"})
    assert (called.type, answered.type) == ("tool.call", "tool.result")
    assert called.data == {"id": "3", "tool": "read_docs", "arguments": {"module": "heapq"}}
    assert answered.data == {"id": "3", "tool": "read_docs", "result": {"text": "…"}}
