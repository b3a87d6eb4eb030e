import subprocess
import sys

import pytest

from outlast.cli import library
from outlast.cli.library import ModuleRefused, find_module, list_names, read_docs, read_source, suggestions


def test_the_docs_are_the_modules_own() -> None:
    docs = read_docs("heapq")
    assert docs.module == "heapq"
    assert docs.python == ".".join(map(str, sys.version_info[:3]))
    assert docs.text.startswith("Heap queue algorithm (a.k.a. priority queue).\n\nHeaps are arrays for which")
    assert docs.lines > 100
    assert docs.words_left > 0


def test_running_text_is_joined_and_code_keeps_its_lines() -> None:
    text = read_docs("heapq").text
    assert "of a heap is that a[0] is always its smallest element." in text
    assert "\n    heappush(heap, item) # pushes a new item on the heap\n" in text


def test_an_announcement_of_what_was_cut_is_cut_too() -> None:
    assert not read_docs("heapq").text.endswith(":")
    assert len(read_docs("configparser").text.split()) <= library.DOCS_WORDS


def test_a_module_without_docs_has_empty_ones() -> None:
    docs = read_docs("tomllib")
    assert docs.text == ""
    assert docs.words_left == 0
    assert list_names("tomllib").functions


def test_imports_are_read_from_the_source() -> None:
    assert "re" in read_docs("textwrap").imports
    assert read_docs("itertools").imports == []
    assert read_docs("itertools").lines == 0


def test_names_are_listed_by_kind() -> None:
    names = list_names("json")
    assert names.functions == ["dump", "dumps", "load", "loads"]
    assert names.classes == ["JSONDecoder", "JSONEncoder"]
    assert names.exceptions == ["JSONDecodeError"]
    assert "tool" in names.modules
    assert list_names("math").values == ["pi", "e", "tau", "inf", "nan"]


def test_the_source_of_a_function_begins_after_its_docstring() -> None:
    source = read_source("textwrap", "fill")
    assert source.kind == "function"
    assert source.signature == "(text, width=70, **kwargs)"
    assert source.summary == "Fill a single paragraph of text, returning a new string."
    assert source.body == ["w = TextWrapper(width=width, **kwargs)", "return w.fill(text)"]


def test_a_function_replaced_by_its_c_twin_is_shown_in_python() -> None:
    assert read_source("heapq", "heappush").body[0] == "heap.append(item)"


def test_what_is_written_in_c_alone_has_no_source() -> None:
    source = read_source("math", "gcd")
    assert source.lines == 0
    assert source.body == []
    assert source.summary == "Greatest Common Divisor."


def test_a_class_shows_its_public_methods() -> None:
    source = read_source("graphlib", "TopologicalSorter")
    assert source.kind == "class"
    assert "static_order" in source.methods
    assert not any(name.startswith("_") for name in source.methods)


@pytest.mark.parametrize("module", ["urllib.parse", "collections.abc", "concurrent.futures", "os.path"])
def test_modules_in_packages_can_be_read(module: str) -> None:
    assert list_names(module).functions or list_names(module).classes


@pytest.mark.parametrize(
    "module",
    [
        *("no_such_module", "pytest", "outlast", "", ".", "heapq.", "a.b.c.d.e.f", "heapq\n", "heapq; import os"),
        *("antigravity", "this", "idlelib", "idlelib.run", "turtle", "turtledemo", "tkinter", "readline"),
        *("__main__", "json.__main__", "_heapq", "unittest.test", "heapq.heappush", "json.no_such_part"),
    ],
)
def test_other_modules_are_refused_with_others_to_ask_for(module: str) -> None:
    with pytest.raises(ModuleRefused, match=r"; try one of these: (\w+, ){4}\w+$"):
        find_module(module)


def test_a_refused_module_is_not_imported() -> None:
    asked = (
        "import sys\n"
        "from outlast.cli import library\n"
        "for name in ('this', 'antigravity', 'turtle', '__main__'):\n"
        "    try:\n"
        "        library.read_docs(name)\n"
        "    except library.ModuleRefused:\n"
        "        continue\n"
        "    sys.exit(f'{name} was read')\n"
        "sys.exit(sorted({'this', 'antigravity', 'turtle'} & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_refusal_never_repeats_the_name() -> None:
    with pytest.raises(ModuleRefused) as refused:
        find_module("SECRET-MARKER")
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(("asked", "first"), [("jsn", "json"), ("heap", "heapq"), ("StatisticS", "statistics")])
def test_the_nearest_module_is_suggested_first(asked: str, first: str) -> None:
    assert suggestions(asked)[0] == first


def test_unknown_names_are_refused_with_known_ones() -> None:
    with pytest.raises(ModuleRefused, match="it has heappush, "):
        read_source("heapq", "__builtins__")


def test_no_memory_address_is_told() -> None:
    assert library.without_addresses("<object object at 0x7f00c0ffee> = 1") == "<object object> = 1"
    assert " at 0x" not in read_source("functools", "reduce").signature


def test_a_long_summary_ends_with_a_whole_sentence() -> None:
    summary = read_source("textwrap", "TextWrapper").summary
    assert len(summary.split()) <= library.SUMMARY_WORDS
    assert summary.endswith(".")


def test_every_module_is_read_or_refused() -> None:
    # In a process of its own, for it imports the whole standard library.
    asked = (
        "import sys\n"
        "from outlast.cli import library\n"
        "read = 0\n"
        "for module in sorted(sys.stdlib_module_names):\n"
        "    try:\n"
        "        library.read_docs(module)\n"
        "    except library.ModuleRefused:\n"
        "        continue\n"
        "    names = library.list_names(module)\n"
        "    for name in (names.functions + names.classes)[:2]:\n"
        "        library.read_source(module, name)\n"
        "    read += 1\n"
        "print(read)\n"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 100
