"""Whatever is wrong with a command line takes one sentence and exit code 2."""

import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.cli.program import MODULES, run
from outlast.stores.sqlite.migration import APPLICATION_ID, NEWEST

APP = "from outlast import Outlast\noutlast = Outlast('sqlite://')\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("OUTLAST_URL", "OUTLAST_TOKEN", "OUTLAST_STORE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sample_program.py").write_text(APP)
    (tmp_path / "garbage.db").write_bytes(b"This is no database." * 1000)
    (tmp_path / "folder.db").mkdir()
    return tmp_path


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that is refused, and return what was said."""
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("outlast: ")
    assert err.count("\n") == 1
    assert err.endswith(("\n",))
    assert "Traceback" not in err
    return err.removeprefix("outlast: ").rstrip()


SERVE = ["serve", "sample_program:outlast", "--port", "0"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["quux"], "No such command 'quux'"),
        (["--bogus"], "No such option"),
        (["serve"], "Missing argument 'MODULE:ATTRIBUTE'"),
        (["serve", "sample_program"], "MODULE:ATTRIBUTE"),
        (["serve", "sample_nothing:x"], "There is no module sample_nothing"),
        (["serve", "sample_program:x"], "Did you mean `sample_program:outlast`?"),
        (["serve", "sample_program:Outlast"], "of type type"),
        ([*SERVE, "--port", "65536"], "65536"),
        ([*SERVE, "--port", "http"], "'http' is not a valid integer"),
        ([*SERVE, "--host", "0.0.0.0"], "lets other machines in"),
        ([*SERVE, "--host", "nowhere.invalid"], "--host"),
        ([*SERVE, "--store", "mongodb://x"], "sqlite:///runs.db"),
        ([*SERVE, "--store", "runs.db"], "sqlite:///runs.db"),
        ([*SERVE, "--store", ""], "sqlite:///runs.db"),
        ([*SERVE, "--store", "sqlite:///garbage.db"], "no SQLite database"),
        ([*SERVE, "--store", "sqlite:///missing/folder/runs.db"], "does not exist"),
        ([*SERVE, "--store", "sqlite:///folder.db"], "cannot be opened"),
        (["demo", "no_such_module"], "cannot explain this"),
        (["demo", "heapq", "--pace", "-1"], "from 0 to 5"),
        (["demo", "heapq", "--pace", "nan"], "from 0 to 5"),
        (["demo", "heapq", "--port", "0"], "0 is not in the range"),
        (["demo", "heapq", "--store", "nonsense"], "sqlite:///runs.db"),
        (["start"], "Missing argument 'WORKER'"),
        (["start", "chat", "not json"], "INPUT is not JSON"),
        (["start", "chat", "--url", "nonsense"], "one looks like http://"),
        (["start", "chat", "--url", "http://127.0.0.1:1"], "does `outlast serve` run there?"),
        (["tail"], "Missing argument 'RUN'"),
        (["tail", "r", "--url", "ftp://x"], "http://"),
        (["tail", "r", "--after", "yesterday"], "A cursor is"),
        (["tail", ""], "`outlast runs` lists yours"),
        (["tail", "..", "--url", "http://127.0.0.1:1"], "`outlast runs` lists yours"),
        (["show", "r", "--url", "http://127.0.0.1:1"], "Nothing answers"),
        (["stop", "r", "--url", "http://127.0.0.1:1"], "Nothing answers"),
        (["erase", "r", "--yes", "--url", "http://127.0.0.1:1"], "Nothing answers"),
        (["stop", "r", "--reason"], "requires an argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert part in sentence(capsys, *arguments)


def test_a_port_in_use_is_one_sentence(taken: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["serve", "sample_program:outlast", "--port", taken], ["demo", "--port", taken]):
        assert f"Port {taken} is in use" in sentence(capsys, *arguments)


def test_a_store_of_a_newer_version_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    connection = sqlite3.connect("newer.db")
    connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {NEWEST + 1};")
    connection.close()
    said = sentence(capsys, *SERVE, "--store", "sqlite:///newer.db")
    assert "this version of Outlast knows none above" in said


def test_a_setting_that_cannot_work_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_HEARTBEAT", "soon")
    (folder / "sample_setting.py").write_text(APP)
    assert "OUTLAST_HEARTBEAT must be a number" in sentence(capsys, "serve", "sample_setting:outlast")
    assert "OUTLAST_HEARTBEAT must be a number" in sentence(capsys, "demo")


def test_a_usage_mistake_says_where_help_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence(capsys, "tail").endswith("See `outlast tail --help`.")
    assert sentence(capsys, "quux").endswith("See `outlast --help`.")
    assert sentence(capsys, "strat").endswith("did you mean `start`? See `outlast --help`.")


def test_nothing_asked_for_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("Usage: outlast")
    assert not told.err


@pytest.mark.parametrize("name", ["", *MODULES])
def test_help_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*([name] if name else []), "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"Usage: outlast {name}".rstrip())
    assert "\b" not in said
    if name in {"", "serve", "demo", "start", "tail"}:
        assert "  outlast " in said.partition("Options:")[2]


def test_every_command_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    listed = capsys.readouterr().out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(MODULES)
    assert all(len(line.split()) > 3 for line in listed)


@pytest.mark.parametrize("name", ["start", "tail", "show", "stop"])
def test_a_command_that_serves_nothing_loads_no_web_server(name: str) -> None:
    code = (
        "import sys; from outlast.cli.program import run; run([sys.argv[1], '-h']); sys.exit('uvicorn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, name], check=True, stdout=subprocess.DEVNULL)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("outlast 0.")
