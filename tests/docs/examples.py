"""Runs what a page shows: its blocks of Python and of a shell, in order, in one folder and shell, as a reader would.

Rules:
1. Every ```python and ```sh block runs, unless a comment before it says why not: `<!-- not run: the reason -->`.
2. `<!-- file: app.py -->` before a block writes it into the folder instead: whatever runs later finds it there.
   `<!-- also in: path -->` says that the block stands in that file of the checkout, word for word, and holds it there.
3. Other Python runs as a script; `await` and `async for` may stand at its top, as in a notebook.
4. A page has one shell, so `$!` and variables last. No command of a block may fail, except before `|| true`. Where a
   block ends with `&`, the next one waits until what it began answers at the page's port. `<!-- background -->` does
   the same to a block that people run in a terminal of its own.
5. `<!-- output -->` before a ```text block holds it against what the block before it said; `…` stands for anything.
6. `localhost:8000` and `--port 8000` mean a free port, another for each page.
"""

import ast
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
PORT = "8000"
RUN = ("python", "sh")

_BLOCK = re.compile(
    r"(?P<marks>(?:^<!-- (?:(?!-->).)*-->\n\n?)*)^(?P<fence>```+)(?P<language>\w+)\n(?P<code>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"<!-- (file|also in|not run|background|output)(?::(.*?))?\s*-->", re.DOTALL)
_END = "the block has ended with"
_AWAIT = "for _ in {{1..600}}; do (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.05; done"
"""Until the port answers; looked for by the shell, twenty times a second for half a minute at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: where it stands, what it holds, and what the comments before it ask for."""

    line: int
    language: str
    code: str
    marks: dict[str, str]


class ExampleFailed(AssertionError):
    """A block of a page does not do what the page says."""


def blocks(text: str) -> Iterator[Block]:
    """Find the blocks of a page, in order."""
    for found in _BLOCK.finditer(text):
        yield Block(
            line=text.count("\n", 0, found.start("fence")) + 1,
            language=found["language"],
            code=found["code"],
            marks={name: " ".join(said.split()) for name, said in _MARK.findall(found["marks"])},
        )


class Page:
    """One page on its way: its folder, its shell, its port, and what its last block said."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self.port = _free_port()
        self._said = ""
        self._shell: subprocess.Popen[str] | None = None
        self._complaints = folder / "stderr"
        self.ran = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shell is not None and self._shell.stdin and self._shell.stdout:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)  # what it began is of its group
            self._shell.wait()
            self._shell.stdin.close()
            self._shell.stdout.close()

    def run(self) -> int:
        """Run all of it and return how many blocks ran. Raises `ExampleFailed`."""
        for block in blocks(self._page.read_text()):
            try:
                self._take(block)
            except ExampleFailed as failed:
                raise ExampleFailed(f"{self._page.name}, line {block.line}: {failed}") from None
        return self.ran

    def _take(self, block: Block) -> None:
        marks = block.marks
        if "also in" in marks and block.code not in (ROOT / marks["also in"]).read_text():
            raise ExampleFailed(f"{marks['also in']} does not hold this block as it stands here")
        if "not run" in marks:
            if not marks["not run"]:
                raise ExampleFailed("`<!-- not run: … -->` gives its reason")
        elif "file" in marks:
            (self._folder / marks["file"]).write_text(self._here(block.code))
        elif "output" in marks:
            self._compare(block.code)
        elif block.language == "python":
            self.ran += 1
            script = self._folder / f"line_{block.line}.py"
            script.write_text(_as_script(self._here(block.code)))
            self._said = self._tell(f"{sys.executable} {script.name}")
        elif block.language == "sh":
            self.ran += 1
            self._said = self._tell(self._here(block.code).rstrip() + (" &" if "background" in marks else ""))

    def _here(self, code: str) -> str:
        return re.sub(rf"(localhost:|127\.0\.0\.1:|\bport[ =]){PORT}\b", rf"\g<1>{self.port}", code)

    def _compare(self, expected: str) -> None:
        pattern = re.escape(expected.strip()).replace("…", ".*?")
        if not re.fullmatch(pattern, self._said.replace(str(self.port), PORT).strip(), re.DOTALL):
            raise ExampleFailed(f"what was said is not this, but:\n{self._said}")

    def _tell(self, command: str) -> str:
        """Let the shell run a command, and return what it said."""
        shell = self._shell = self._shell or self._begin()
        assert shell.stdin
        assert shell.stdout
        if command.endswith("&"):  # what it says later is nobody's answer
            command = f"{{ {command}\n}} >>server.log 2>&1\n{_AWAIT.format(port=self.port)}"
        shell.stdin.write(f"ended=0; trap 'ended=$?' ERR\n{command}\ntrap - ERR; echo; echo {_END} $ended\n")
        shell.stdin.flush()
        said = ""
        for line in shell.stdout:  # the test's own limit bounds it
            if line == f"{_END} 0\n":
                return said.removesuffix("\n")
            if line.startswith(_END):
                raise ExampleFailed(f"ended with {line.split()[-1]}, saying:\n{said}{self._complained()}")
            said += line
        raise ExampleFailed(f"ended the shell, saying:\n{said}{self._complained()}")

    def _complained(self) -> str:
        logs = [self._complaints, self._folder / "server.log"]
        return "".join(log.read_text()[-3000:] for log in logs if log.exists())

    def _begin(self) -> "subprocess.Popen[str]":
        programs = str(Path(sys.executable).parent)
        # What they compile they keep: each process would compile pytest and all the rest again.
        ours = ("OUTLAST_", "PYTEST_", "PYTHONDONTWRITEBYTECODE")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environ |= {"PATH": f"{programs}{os.pathsep}{environ['PATH']}", "UVICORN_PORT": str(self.port)}
        environ |= {"PYTHONUNBUFFERED": "1"}
        with self._complaints.open("w") as complaints:
            return subprocess.Popen(
                ["bash", "--noprofile", "--norc"],
                cwd=self._folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,
            )


def _as_script(code: str) -> str:
    """Give top-level `await` and `async for` a loop to run on."""
    try:
        compile(code, "example", "exec")
    except SyntaxError:
        compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return f"import asyncio\n\n\nasync def example():\n{textwrap.indent(code, '    ')}\n\nasyncio.run(example())\n"
    return code


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
