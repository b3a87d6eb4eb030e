"""The bench does the work that it measures: every side of every row once, with a load too small to time."""

import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench import report
from bench.__main__ import main
from bench.fanout import MOUNTED, lacks
from bench.fanout import OURS as SERVED
from bench.measure import OURS, Goal, Kind, Quantity, Row, Sample, WrongWork, compare, is_reached, measure
from bench.memory import resting
from bench.process import Heard
from bench.record import check_file, say
from bench.rows import ROWS
from bench.stream import texts

TINY = 0.005
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ROWS)
def test_every_side_of_every_row_does_its_work(name: str) -> None:
    row = ROWS[name](TINY)
    if row.lacks is not None:
        pytest.skip(f"{name}: {row.lacks}")
    for side, work in row.sides().items():
        told = work()  # raises WrongWork unless every event is where it belongs
        assert told.keys() >= row.quantities.keys(), side
        assert all(math.isfinite(value) for value in told.values()), side
    assert {goal.quantity for goal in row.goals} <= row.quantities.keys()
    assert {goal.reference for goal in row.goals} <= {None, *row.references}


def test_an_event_that_is_missing_doubled_or_another_is_wrong_work(tmp_path: Path) -> None:
    def written(name: str, *texts: str) -> Path:
        path = tmp_path / name
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE events (place INTEGER PRIMARY KEY, type TEXT, data TEXT)")
            connection.executemany(
                "INSERT INTO events (type, data) VALUES ('text', ?)", [(f'"{each}"',) for each in texts]
            )
            connection.commit()
        return path

    check_file(written("right", say(0), say(1), say(0)), [2, 1])
    for name, wrong in {
        "missing": (say(0), say(1)),
        "doubled": (say(0), say(1), say(0), say(0)),
        "another": (say(0), say(0), say(1)),
    }.items():
        with pytest.raises(WrongWork):
            check_file(written(name, *wrong), [2, 1])


def test_a_reader_that_missed_an_event_is_wrong_work() -> None:
    def heard(*numbers: int) -> Heard:
        frames = [f'event: text\nid: {number + 1}\ndata: "{say(number)}"\n\n'.encode() for number in numbers]
        return Heard(parts=[(0, b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(frames))], seconds=1.0)

    texts(heard(0, 1, 2), 3)
    for numbers in [(0, 1), (0, 2, 1), (0, 1, 1)]:
        with pytest.raises(WrongWork):
            texts(heard(*numbers), 3)


@pytest.mark.behaviour("F16")
@pytest.mark.skipif(lacks() is not None, reason=str(lacks()))
def test_an_idle_reader_costs_less_memory_than_is_promised() -> None:
    assert resting(SERVED, 300) <= 32 * 1024
    assert resting(MOUNTED, 300) <= 32 * 1024


# ---- what is made of the figures ----


def asked(kind: Kind, bound: float | None) -> Row:
    """Return a row whose ours needs 2, 3 and 4, and whose reference always needs 6."""
    values = iter([9.0, 2.0, 3.0, 4.0])
    return Row(
        question="How much?",
        quantities={"much": Quantity(unit="ms", kind=kind)},
        ours=lambda: {"much": next(values)},
        references={"theirs": lambda: {"much": 6.0}},
        goals=[Goal(quantity="much", reference="theirs", bound=bound), Goal(quantity="much")],
    )


def measured(row: Row) -> dict[str, list[Sample]]:
    return measure(row, rounds=3, tell=lambda _: None)


def test_the_round_that_warms_up_counts_for_nothing() -> None:
    samples = measured(asked(Kind.COST, None))
    assert [sample["much"] for sample in samples[OURS]] == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("kind", "median", "bound", "reached"),
    [
        (Kind.COST, 2.0, 2.0, True),
        (Kind.COST, 2.0, 2.1, False),
        (Kind.RATE, 0.5, 0.5, True),
        (Kind.RATE, 0.5, 0.6, False),
        (Kind.DELAY, 0.5, 0.5, True),
        (Kind.DELAY, 0.5, 0.4, False),
        (Kind.DELAY, 0.5, None, None),
    ],
)
def test_a_ratio_says_how_many_times_as_much_as_cheap_or_as_long(
    kind: Kind, median: float, bound: float | None, reached: bool | None
) -> None:
    row = asked(kind, bound)
    found = compare(row, row.goals[0], measured(row))
    assert found.median == pytest.approx(median)
    assert found.least < found.median < found.most
    assert is_reached(row, row.goals[0], found) is reached


def test_a_cost_by_itself_is_judged_by_what_it_may_be_at_most() -> None:
    row = asked(Kind.COST, None)
    samples, alone = measured(row), Goal(quantity="much", bound=3.5)
    found = compare(row, alone, samples)
    assert found.median == 3.0
    assert is_reached(row, alone, found)
    assert not is_reached(row, Goal(quantity="much", bound=2.5), found)


def test_a_result_is_written_read_back_and_drawn_without_a_place_or_a_name(tmp_path: Path) -> None:
    row = asked(Kind.DELAY, 0.4)
    told = report.document("much", row, measured(row), load=(0.512, 1.0))
    written = report.write(told, tmp_path)
    (read,) = report.read(tmp_path)
    assert read == told
    assert not [name for name in (os.uname().nodename, str(ROOT), str(Path.home())) if name in written.read_text()]
    head, _, first, second = report.markdown([read]).splitlines()
    assert head == f"| {' | '.join(report.HEADS)} |"
    assert first == "| much | much | 3 ms | 6 ms (theirs) | 0.5 × [0.333 – 0.667] | ≤ 0.4 × | **no** |"
    assert second == "| much | much | 3 ms | – | 3 ms [2 – 4] | – | reported |"
    assert "**" not in report.text([read])


# ---- the command ----


def test_the_command_lists_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(ROWS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["append-two"], "there is no row append-two; --list names them"), (["--rounds", "0"], "one round must count")],
)
def test_the_command_refuses_what_it_cannot_measure(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_command_measures_a_row_and_ends_with_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(ROWS, "much", lambda _: asked(Kind.COST, 1.0))
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert main(["much", "--rounds", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].split() == [
        *("much", "much", "3", "ms", "6", "ms", "(theirs)", "2", "×", "[1.5", "–", "3]", "≥", "1", "×", "yes")
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["much.json"]


def test_a_row_that_cannot_be_measured_is_skipped_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["disk-power"]) == 0
    assert "disk-power: skipped, " in capsys.readouterr().out
