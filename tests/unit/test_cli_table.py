"""Rows in columns, fitted to a width."""

from outlast.cli.table import columns


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns([("a", "bb", "c"), ("aaa", "b", "")]) == ["a    bb  c", "aaa  b"]


def test_one_column_gives_way_and_then_the_line_ends() -> None:
    rows = [("x" * 30, "state"), ("short", "ok")]
    assert columns(rows, width=20, stretch=0) == ["x" * 12 + "…  state", "short          ok"]
    assert all(len(line) <= 10 for line in columns(rows, width=10, stretch=0))


def test_wide_characters_and_control_characters_keep_the_columns_straight() -> None:
    assert columns([("日本", "x"), ("ab", "y")]) == ["日本  x", "ab    y"]
    assert columns([("日本日本日本", "x")], width=11, stretch=0) == ["日本日…   x"]
