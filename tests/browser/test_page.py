"""The static page: its protocol under node, against what the server writes, and what its files may hold."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from outlast.log.cursor import chain, origin
from outlast.log.event import Event, StoredEvent
from outlast.wire import native

NODE = shutil.which("node")
WEB = Path(str(files("outlast.web")))
SCRIPTS = sorted(WEB.glob("*.js"))

needs_node = pytest.mark.skipif(NODE is None, reason="node is not on this machine")


def node(*arguments: str, cwd: Path) -> str:
    assert NODE is not None
    done = subprocess.run([NODE, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """Lay the page's modules where every node takes them for modules, the tests beside them as in the checkout."""
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(WEB, tmp_path / "src/outlast/web", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/browser").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("test_outlast.mjs"), tmp_path / "tests/browser")
    return tmp_path


@needs_node
def test_the_protocol_and_the_fold_of_the_page_pass_under_node(modules: Path) -> None:
    report = node("--test", "--test-reporter=tap", "tests/browser/test_outlast.mjs", cwd=modules)
    assert re.search(r"^# pass [1-9]\d+$", report, re.MULTILINE), report
    assert "# skipped 0" in report


@needs_node
def test_the_page_reads_what_the_server_writes(modules: Path) -> None:
    events = [
        Event("text", "ü 👩‍🚀 \u2028 \x00 </script>"),
        Event("text", "\ud83d"),
        Event("tool.call", {"id": "1", "arguments": {"lines": "a\nb\r\nc"}}),
        Event("bytes", bytes(range(256))),
        Event("data", b'{"a":\n1}', content_type="application/json"),
        Event("note", "zwölf\n".encode(), content_type="text/plain"),
        Event("text", ""),
    ]
    cursors = chain(origin("log"), events)
    frames = [
        native.event_frame(StoredEvent(cursor=cursor, event=event, epoch=1, time=0.0))
        for cursor, event in zip(cursors, events, strict=True)
    ]
    (modules / "frames").write_bytes(native.hello(boot_id="b", heartbeat=10.0, head=cursors[-1]) + b"".join(frames))
    (modules / "read.js").write_text(
        'import { readFileSync } from "node:fs";\n'
        'import { Parser, eventOf } from "./src/outlast/web/outlast.js";\n'
        'const [hello, ...frames] = new Parser().push(readFileSync("frames"));\n'
        "const plain = (event) => (event.data instanceof Uint8Array ? { ...event, data: [...event.data] } : event);\n"
        "console.log(JSON.stringify([JSON.parse(hello.data), ...frames.map(eventOf).map(plain)]));\n"
    )
    hello, *read = json.loads(node("read.js", cwd=modules))
    assert hello["heartbeat"] == 10.0
    assert read == [
        {
            "seq": cursor.seq,
            "cursor": str(cursor),
            "type": event.type,
            "data": list(event.data) if isinstance(event.data, bytes) else event.data,
        }
        for cursor, event in zip(cursors, events, strict=True)
    ]


@needs_node
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_sound(script: Path, modules: Path) -> None:
    node("--check", f"src/outlast/web/{script.name}", cwd=modules)


# ---- what the files may hold --------------------------------------------------------------------


class Markup(HTMLParser):
    """What a strict policy and a mount under any prefix have to know of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.addresses: list[str] = []
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.inline += [f"{tag} {name}" for name, _ in attrs if name == "style" or name.startswith("on")]
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href", "action"}]

    def handle_data(self, data: str) -> None:
        if self._open in {"script", "style"} and data.strip():
            self.inline.append(self._open)


def markup(text: str) -> Markup:
    page = Markup()
    page.feed(text)
    return page


def sinks(script: str) -> list[str]:
    """Find what would turn text into markup or code, or style an element around the policy."""
    return re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser|createContextualFragment|\beval\b"
        r"|new Function|\.style\b|cssText|setAttribute\(\s*[\"'](?:style|on|src)|javascript:",
        script,
    )


def test_the_page_holds_nothing_inline_and_only_relative_addresses() -> None:
    page = markup((WEB / "index.html").read_text())
    assert page.inline == []
    assert [address for address in page.addresses if re.match(r"/|(?!data:)\w+:", address)] == []
    local = {address for address in page.addresses if address and address[0] not in "#d"}
    assert all((WEB / address).is_file() for address in local)
    assert local


def test_a_run_is_started_with_the_input_that_was_typed_and_none_is_suggested() -> None:
    assert re.search(r"<textarea[^>]*></textarea>", (WEB / "index.html").read_text())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_script_turns_text_into_markup_or_code(script: Path) -> None:
    text = script.read_text()
    assert sinks(text) == []
    assert not re.search(r"""fetch\(\s*[`"']/|https?://""", text)
    assert all((WEB / module).is_file() for module in re.findall(r'from "\./(\w+\.js)"', text))


def test_the_style_loads_nothing() -> None:
    assert not re.search(r"@import|url\(|@font-face", (WEB / "style.css").read_text())


def test_files_stay_small_enough_to_be_read() -> None:
    assert {
        path.name: len(path.read_text().splitlines()) for path in SCRIPTS if path.read_text().count("\n") > 400
    } == {}


# ---- these checks can fail ----


def test_inline_code_and_markup_sinks_are_found() -> None:
    page = markup('<p style="x" onclick="y"><script>z()</script><a href="/runs">')
    assert page.inline == ["p style", "p onclick", "script"]
    assert page.addresses == ["/runs"]
    assert sinks("node.innerHTML = x; node.style.color = y; eval(z)") == ["innerHTML", ".style", "eval"]
