"""A small terminal: interprets what is written to it, and knows what a person would see."""

import io
import re
import unicodedata

from outlast.cli.terminal import cells

COLUMNS, LINES = 20, 8


class Console(io.StringIO):
    """A terminal of 20 columns and 8 lines that knows the codes we use, and refuses any other."""

    def __init__(self) -> None:
        super().__init__()
        self.grid: list[list[str]] = [[]]
        self.scrolled: list[str] = []
        self.row = self.column = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        for code, count, letter, char in re.findall(r"(\x1b\[(\d*)([A-Za-z]))|([\s\S])", text):
            if code:
                self._act(letter, int(count or 1))
            else:
                self._print(char)
        return len(text)

    def _act(self, letter: str, count: int) -> None:
        match letter:
            case "A":
                self.row = max(0, self.row - count)
            case "C":
                self.column = min(COLUMNS - 1, self.column + count)
            case "J":
                del self.grid[self.row + 1 :]
                del self.grid[self.row][self.column :]
            case "m":
                pass
            case _:
                raise AssertionError(f"code {letter}")

    def _print(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.column = 0
            self.row += 1
            if self.row == len(self.grid):
                self.grid.append([])
            if self.row == LINES:
                self.scrolled.append("".join(self.grid.pop(0)))
                self.row -= 1
        else:
            assert unicodedata.category(char) != "Cc", repr(char)
            row = self.grid[self.row]
            row.extend(" " * (self.column - len(row)))
            row[self.column : self.column + 1] = [char, *[""] * (cells(char) - 1)]
            self.column += cells(char)
            assert self.column < COLUMNS, "the terminal would have wrapped by itself"

    @property
    def rows(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.grid]

    @property
    def shown(self) -> str:
        return "\n".join(self.rows)
