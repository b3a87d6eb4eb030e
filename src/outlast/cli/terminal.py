"""Writes a transcript where a person reads it: a terminal with a status line at the bottom, or a plain stream.

Rules:
1. What a worker said reaches a terminal as text alone. Control characters, those of direction among them, are made
   visible, so that no payload moves the cursor, sets a title or hides a line (Z1).
2. A terminal's lines are broken here and not by it, one cell before its edge, so that we know how many rows stand
   and can take them back when a takeover folds them away.
3. The cursor rests at the end of the text, the status line lies one row below. Every write takes the status line
   away first, and puts it back.
4. A plain stream gets no control character of ours, and the text as it was said. A notice begins a line where it lands:
   in the stream itself only where both go to one place, such as the same file.
"""

import os
import re
import shutil
import unicodedata
from bisect import bisect_right
from enum import StrEnum
from itertools import accumulate
from typing import Final, Protocol, TextIO


class Style(StrEnum):
    """How a line looks on a terminal; the value is the code that switches it on."""

    PLAIN = ""
    DIM = "\x1b[2m"
    BOLD = "\x1b[1m"
    GOOD = "\x1b[32m"
    BAD = "\x1b[31m"
    NOTED = "\x1b[33m"


class Screen(Protocol):
    """Where a transcript is written."""

    def text(self, text: str) -> None:
        """Let text flow on, right behind what stands there."""
        ...

    def line(self, text: str, style: Style = Style.PLAIN) -> None:
        """Write a line of its own."""
        ...

    def aside(self, text: str) -> None:
        """Write a line of little importance, which never takes more than one row of a terminal."""
        ...

    def fold(self) -> None:
        """Take back what was written since the last `keep`, as far as it can be taken back."""
        ...

    def keep(self) -> None:
        """Let what stands stay, whatever is folded away later."""
        ...

    def status(self, text: str) -> None:
        """Show what is going on just now, in place of what was shown before."""
        ...

    def notice(self, text: str) -> None:
        """Tell of a change to those who see no status."""
        ...

    def close(self) -> None:
        """Leave the screen to others."""
        ...


def screen_for(stream: TextIO, errors: TextIO) -> Screen:
    """Return the screen that fits what `stream` is; `errors` hears of the connection where there is no status line."""
    if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
        reconfigure(errors="backslashreplace")  # half a character, or an encoding that knows few
    # The console of old Windows does not know the codes, and a dumb terminal says so.
    if stream.isatty() and os.environ.get("TERM") != "dumb" and os.name != "nt":
        return Terminal(stream, colours=not os.environ.get("NO_COLOR"))
    return Plain(stream, errors)


# ---- text a terminal can be trusted with --------------------------------------------------------

# Controls of ASCII and Latin-1 but for LF and TAB; marks of direction, which show a text in another order than it
# has; line ends of Unicode; and surrogates, which cannot be written.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return `text` with every character that would act on a terminal shown instead: ESC as ␛, others as escapes."""
    return _UNSAFE.sub(_shown, text.replace("\r\n", "\n"))


def inline(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` columns."""
    line = visible(text).replace("\n", "␊").replace("\t", " ")
    columns = list(accumulate(map(cells, line)))
    if not columns or columns[-1] <= limit:
        return line
    return line[: bisect_right(columns, limit - 1)] + "…"


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < ord(" "):
        return chr(0x2400 + code)  # Unicode has pictures of these
    return "␡" if code == ord("\x7f") else f"\\u{code:04x}"


def cells(char: str) -> int:
    """Return how many columns a character takes: 0, 1 or 2."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


_PARTS: Final = re.compile(r"\n|[^\S\n]+|\S+")


# ---- the two screens ----------------------------------------------------------------------------


class Plain:
    """A file, a pipe, or a terminal that knows no codes."""

    def __init__(self, stream: TextIO, errors: TextIO) -> None:
        self._stream = stream
        self._errors = errors
        self._is_one = _is_one(stream, errors)
        self._at_start = True

    def text(self, text: str) -> None:
        self._write(visible(text) if self._stream.isatty() else text)

    def line(self, text: str, style: Style = Style.PLAIN) -> None:  # noqa: ARG002 - a plain stream has one look
        self._write(("" if self._at_start else "\n") + text + "\n")

    def aside(self, text: str) -> None:
        self.line(text)

    def fold(self) -> None:
        pass  # what a stream has taken it keeps

    def keep(self) -> None:
        pass

    def status(self, text: str) -> None:
        pass  # there is no place that could be written over

    def notice(self, text: str) -> None:
        if not self._at_start and self._is_one:
            self._write("\n")
        elif not self._at_start and self._errors.isatty():
            text = "\n" + text  # a pipe may end there too, as that of `tee` does
        print(text, file=self._errors, flush=True)

    def close(self) -> None:
        if not self._at_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        if text:
            self._at_start = text.endswith("\n")
            self._stream.write(text)
            self._stream.flush()


def _is_one(stream: TextIO, errors: TextIO) -> bool:
    try:
        return os.path.sameopenfile(stream.fileno(), errors.fileno())
    except OSError:  # it is no file of the system's
        return stream is errors


class Terminal:
    """A terminal that knows the usual codes."""

    def __init__(self, stream: TextIO, *, colours: bool) -> None:
        self._stream = stream
        self._colours = colours
        self._column = 0
        self._rows = 0
        self._after_space = False
        self._status = ""

    def text(self, text: str) -> None:
        self._draw(self._laid(visible(text)))

    def line(self, text: str, style: Style = Style.PLAIN) -> None:
        start = self._laid("\n") if self._column else ""
        shown = self._laid(visible(text))
        self._draw(start + (style + shown + "\x1b[0m" if style and self._colours else shown) + self._laid("\n"))

    def aside(self, text: str) -> None:
        self.line(inline(text, self._size().columns - 1), Style.DIM)

    def fold(self) -> None:
        up = max(0, min(self._rows, self._size().lines - 2))  # what has scrolled away cannot be reached
        self._column = self._rows = 0
        self._draw("\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J")

    def keep(self) -> None:
        self._rows = 0

    def status(self, text: str) -> None:
        self._status = inline(text, self._size().columns - 1)
        self._draw("")

    def notice(self, text: str) -> None:
        pass  # the status line says it

    def close(self) -> None:
        self._status = ""
        self._draw(self._laid("\n") if self._column else "")

    def _laid(self, text: str) -> str:
        """Break visible text into rows, between words where that is possible, and count them."""
        edge = self._size().columns - 1
        laid: list[str] = []
        for part in _PARTS.findall(text.expandtabs(4)):
            size = sum(map(cells, part))
            if part == "\n":
                laid.append(self._next_row())
            elif part.isspace() and self._column + size > edge:
                laid.append(self._next_row())  # the row's end stands for the spaces
            else:
                if self._after_space and self._column + size > edge:
                    laid.append(self._next_row())
                laid.append(self._broken(part, edge))
            self._after_space = part.isspace()
        return "".join(laid)

    def _broken(self, part: str, edge: int) -> str:
        """Break what is still too long for the rest of its row, wherever the edge is."""
        laid: list[str] = []
        for char in part:
            if self._column + cells(char) > edge:
                laid.append(self._next_row())
            laid.append(char)
            self._column += cells(char)
        return "".join(laid)

    def _next_row(self) -> str:
        self._rows += 1
        self._column = 0
        return "\n"

    def _draw(self, text: str) -> None:
        """Write `text` where the last one ended, and the status line below."""
        below = f"\n{self._status}\x1b[A\r" + (f"\x1b[{self._column}C" if self._column else "")
        self._stream.write("\x1b[J" + text + (below if self._status else ""))
        self._stream.flush()

    @staticmethod
    def _size() -> os.terminal_size:
        return shutil.get_terminal_size()
