"""What a person sees of what is written to a terminal."""

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.cli.terminal import Plain, Style, Terminal, cells, inline, screen_for, visible
from tests.console import COLUMNS, LINES, Console


@pytest.fixture(autouse=True)
def size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LINES", str(LINES))


@pytest.fixture
def console() -> Console:
    return Console()


@pytest.fixture
def terminal(console: Console) -> Terminal:
    return Terminal(console, colours=True)


# ---- text that can be trusted -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
        ("a\rb", "a␍b"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\x00\x7f", "␀␡"),
        ("\x9b31m", "\\u009b31m"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("\u2028", "\\u2028"),
        ("\ud83d", "\\ud83d"),
        ("\U0001f469\u200d\U0001f4bb e\u0301 漢", "\U0001f469\u200d\U0001f4bb e\u0301 漢"),
    ],
)
def test_what_would_act_on_a_terminal_is_shown_instead(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters()))
def test_no_text_whatever_acts_on_a_terminal(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", shown)
    assert visible(shown) == shown


def test_a_line_is_cut_where_it_must_end() -> None:
    assert inline("one\ntwo\tthree", 100) == "one␊two three"
    assert inline("x" * 30, 10) == "x" * 9 + "…"
    assert inline("漢" * 30, 10) == "漢" * 4 + "…"
    assert inline("漢" * 5, 10) == "漢" * 5
    assert inline("", 10) == ""


@pytest.mark.parametrize(("char", "width"), [("a", 1), ("é", 1), ("漢", 2), ("😀", 2), ("\u0301", 0), ("\u200d", 0)])
def test_characters_take_the_cells_they_take(char: str, width: int) -> None:
    assert cells(char) == width


# ---- a terminal ---------------------------------------------------------------------------------


def test_text_flows_and_the_status_stays_below(console: Console, terminal: Terminal) -> None:
    terminal.status("● connected")
    assert console.rows == ["", "● connected"]
    for word in ("one", " two", " three"):
        terminal.text(word)
    assert console.rows == ["one two three", "● connected"]
    terminal.status("○ lost")
    assert console.rows == ["one two three", "○ lost"]


def test_rows_are_broken_between_words_before_the_edge(console: Console, terminal: Terminal) -> None:
    terminal.status("below")
    for word in ("the", " quick", " brown", " fox", " jumps"):
        terminal.text(word)
    assert console.rows == ["the quick brown fox", "jumps", "below"]


def test_a_word_longer_than_a_row_is_broken_at_the_edge(console: Console, terminal: Terminal) -> None:
    terminal.text("x" * 45)
    assert console.rows == ["x" * 19, "x" * 19, "x" * 7]


def test_wide_characters_never_stand_across_the_edge(console: Console, terminal: Terminal) -> None:
    terminal.text("漢" * 12)
    assert console.rows == ["漢" * 9, "漢" * 3]


def test_indentation_stays(console: Console, terminal: Terminal) -> None:
    terminal.text("so:\n\n    >>> heap\n\tx")
    assert console.rows == ["so:", "", "    >>> heap", "    x"]


def test_a_line_stands_by_itself(console: Console, terminal: Terminal) -> None:
    terminal.text("text")
    terminal.line("a line", Style.DIM)
    terminal.text("text again")
    assert console.rows == ["text", "a line", "text again"]


def test_an_aside_takes_one_row_whatever_it_holds(console: Console, terminal: Terminal) -> None:
    terminal.text("text")
    terminal.aside("tool " + "漢" * 50)
    terminal.text("more")
    assert console.rows == ["text", "tool " + "漢" * 6 + "…", "more"]


def test_a_fold_takes_back_what_stands_and_nothing_that_was_kept(console: Console, terminal: Terminal) -> None:
    console.write("$ outlast tail x\n")
    terminal.status("status")
    terminal.line("— kept —")
    terminal.keep()
    terminal.text("three rows of text that will be taken back")
    terminal.line("a tool")
    terminal.text("half a row")
    terminal.fold()
    terminal.line("— taken over —")
    assert console.rows == ["$ outlast tail x", "— kept —", "— taken over —", "", "status"]


def test_a_fold_at_the_very_start_takes_nothing_back(console: Console, terminal: Terminal) -> None:
    console.write("$ outlast tail x\n")
    terminal.fold()
    terminal.line("— taken over —")
    assert console.rows == ["$ outlast tail x", "— taken over —", ""]


def test_a_fold_takes_back_what_is_still_on_the_screen(console: Console, terminal: Terminal) -> None:
    terminal.status("status")
    for number in range(20):
        terminal.line(f"line {number}")
    terminal.fold()
    assert [row for row in console.rows if row] == ["status"]
    assert console.scrolled == [f"line {number}" for number in range(14)]


def test_a_status_is_cut_to_one_row_and_gone_after_the_close(console: Console, terminal: Terminal) -> None:
    terminal.text("text")
    terminal.status("s" * 50)
    assert console.rows == ["text", "s" * 18 + "…"]
    terminal.close()
    assert console.rows == ["text", ""]


def test_neither_text_nor_a_line_nor_a_status_moves_the_cursor(console: Console, terminal: Terminal) -> None:
    for write in (terminal.text, terminal.line, terminal.status):
        write("\x1b[2J\x1b[5A\x9b5A\r\x08")
    assert console.shown.count("␛[2J") == 3


@pytest.mark.parametrize("colours", [True, False])
def test_colours_are_left_out_where_they_are_not_wanted(*, colours: bool) -> None:
    stream = io.StringIO()
    Terminal(stream, colours=colours).line("x", Style.BAD)
    assert (Style.BAD in stream.getvalue()) is colours


@given(
    st.lists(st.tuples(st.sampled_from(["text", "line", "status", "keep", "fold"]), st.text(max_size=30)), max_size=12)
)
def test_whatever_is_written_the_screen_holds_text_and_one_status(steps: list[tuple[str, str]]) -> None:
    console = Console()
    terminal = Terminal(console, colours=False)
    terminal.status("status!")
    for step, text in steps:
        action: Callable[..., None] = getattr(terminal, step)
        action(*([text] if step in {"text", "line"} else ["status!"] if step == "status" else []))
    assert [row for row in console.rows if row == "status!"] == ["status!"]
    assert console.rows[-1] == "status!"
    terminal.close()
    assert "status!" not in console.rows


# ---- a plain stream -----------------------------------------------------------------------------


def test_a_plain_stream_gets_the_text_as_it_was_said_and_no_codes() -> None:
    stream, errors = io.StringIO(), io.StringIO()
    plain = Plain(stream, errors)
    plain.status("status")
    plain.text("a\x1b[31mb")
    plain.line("line", Style.BAD)
    plain.keep()
    plain.fold()
    plain.text("end")
    plain.close()
    assert stream.getvalue() == "a\x1b[31mb\nline\nend\n"
    assert errors.getvalue() == ""


def test_a_plain_stream_hears_of_changes_beside_the_text() -> None:
    stream, errors = io.StringIO(), io.StringIO()
    plain = Plain(stream, errors)
    plain.notice("lost")
    plain.close()
    assert (stream.getvalue(), errors.getvalue()) == ("", "lost\n")


class Shown(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("kind", "told"), [(io.StringIO, "lost\n"), (Shown, "\nlost\n")])
def test_text_that_is_kept_elsewhere_is_not_broken_by_a_notice(kind: type[io.StringIO], told: str) -> None:
    stream, errors = io.StringIO(), kind()
    plain = Plain(stream, errors)
    plain.text("one ")
    plain.notice("lost")
    plain.text("line")
    plain.close()
    assert (stream.getvalue(), errors.getvalue()) == ("one line\n", told)


def test_a_notice_that_lands_among_the_text_has_a_line_of_its_own(tmp_path: Path) -> None:
    with (tmp_path / "both").open("w") as stream, os.fdopen(os.dup(stream.fileno()), "w") as errors:
        plain = Plain(stream, errors)
        for _ in range(2):
            plain.notice("lost")
        plain.text("hel")
        plain.notice("lost")
        plain.line("mark")
        plain.text("lo")
        plain.close()
    assert (tmp_path / "both").read_text() == "lost\nlost\nhel\nlost\nmark\nlo\n"


def test_a_terminal_that_knows_no_codes_gets_visible_text(console: Console) -> None:
    Plain(console, io.StringIO()).text("a\x1b[31mb")
    assert console.shown == "a␛[31mb"


@pytest.mark.parametrize(
    ("term", "tty", "kind"), [("xterm", True, Terminal), ("dumb", True, Plain), ("xterm", False, Plain)]
)
def test_the_screen_fits_the_stream(
    term: str, kind: type[object], monkeypatch: pytest.MonkeyPatch, *, tty: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    assert type(screen_for(Console() if tty else io.StringIO(), io.StringIO())) is kind


def test_half_a_character_reaches_a_file_as_an_escape() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1", write_through=True)
    screen_for(stream, io.StringIO()).text("é \ud83d 漢")
    assert raw.getvalue() == b"\xe9 \\ud83d \\u6f22"
