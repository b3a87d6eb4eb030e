"""Whose lock is free, its process is gone; and nothing else proves that."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.errors import StoreBusy, StoreUnavailable
from outlast.stores.sqlite.locks import NodeLocks
from tests.disk import heard, program


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[NodeLocks]:
    locks = NodeLocks(tmp_path / "x.db.nodes")
    yield locks
    locks.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[NodeLocks]:
    """The locks as another store holds them, in this process or in another: the system tells no difference."""
    locks = NodeLocks(tmp_path / "x.db.nodes")
    yield locks
    locks.close()


def is_dead(locks: NodeLocks, node: str) -> bool:
    seized = locks.seize(node)
    if seized is not None:
        seized.release()
    return seized is not None


# ---- proof ----


def test_a_living_node_is_not_taken_for_dead_by_another_of_the_same_process(ours: NodeLocks, theirs: NodeLocks) -> None:
    theirs.take("a")
    ours.take("b")
    assert not is_dead(ours, "a")
    assert not is_dead(theirs, "b")


def test_a_node_never_takes_itself_for_dead(ours: NodeLocks) -> None:
    ours.take("a")
    assert not is_dead(ours, "a")


def test_a_node_whose_lock_is_free_is_dead(ours: NodeLocks, theirs: NodeLocks) -> None:
    theirs.take("a")
    theirs.close()
    assert is_dead(ours, "a")
    assert is_dead(ours, "a")  # looking is no burial


HOLD = """
from pathlib import Path
from outlast.stores.sqlite.locks import NodeLocks
NodeLocks(Path(sys.argv[1])).take("a")
say("held")
if len(sys.argv) > 2:
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "input()"])
    say("child")
sys.stdin.readline()
"""


def test_the_lock_lives_exactly_as_long_as_its_process(ours: NodeLocks, tmp_path: Path) -> None:
    with program(HOLD, tmp_path / "x.db.nodes") as process:
        assert heard(process) == "held"
        assert not is_dead(ours, "a")
        process.kill()
        process.wait()
        assert is_dead(ours, "a")


def test_a_process_that_was_started_by_a_node_does_not_keep_its_lock(ours: NodeLocks, tmp_path: Path) -> None:
    with program(HOLD, tmp_path / "x.db.nodes", "with a child") as process:
        assert [heard(process), heard(process)] == ["held", "child"]
        process.kill()
        process.wait()
        assert is_dead(ours, "a")


def test_a_missing_file_proves_nothing(ours: NodeLocks, theirs: NodeLocks, tmp_path: Path) -> None:
    assert not is_dead(ours, "a")  # no folder either
    theirs.take("a")
    (tmp_path / "x.db.nodes" / "a.lock").unlink()
    assert not is_dead(ours, "a")


def test_an_error_proves_nothing(ours: NodeLocks, tmp_path: Path) -> None:
    (tmp_path / "x.db.nodes" / "a.lock").mkdir(parents=True)
    assert not is_dead(ours, "a")


# ---- noticing ----


@pytest.mark.behaviour("B1")
def test_a_lock_that_becomes_free_is_noticed_once(ours: NodeLocks, theirs: NodeLocks) -> None:
    ours.take("me")
    assert not ours.notice()
    theirs.take("a/b")
    theirs.take("c")
    assert not any(ours.notice() for _ in range(3))
    theirs.close()  # as its process does when it dies: the files stay
    assert [ours.notice() for _ in range(3)] == [True, False, False]
    assert is_dead(ours, "a/b")  # noticing holds nothing
    again = NodeLocks(ours._folder)
    assert [again.notice() for _ in range(3)] == [False, True, False], "nothing is asked of a file that is new"


def test_a_node_that_leaves_is_not_noticed(ours: NodeLocks, theirs: NodeLocks) -> None:
    theirs.take("a")
    assert not any(ours.notice() for _ in range(2))
    theirs.drop("a")
    assert not any(ours.notice() for _ in range(3))


# ---- taking and letting go ----


def test_one_id_is_not_two_nodes(ours: NodeLocks, theirs: NodeLocks) -> None:
    theirs.take("a")
    with pytest.raises(StoreBusy):
        ours.take("a")
    theirs.drop("a")
    ours.take("a")


def test_taking_and_dropping_twice_is_harmless(ours: NodeLocks, theirs: NodeLocks) -> None:
    ours.take("a")
    ours.take("a")
    ours.drop("a")
    ours.drop("a")
    theirs.take("a")


def test_a_node_that_leaves_takes_its_file_with_it(ours: NodeLocks, tmp_path: Path) -> None:
    ours.take("a")
    ours.drop("a")
    assert list((tmp_path / "x.db.nodes").iterdir()) == []


def test_the_seized_lock_keeps_others_out_until_the_burial_is_over(ours: NodeLocks, theirs: NodeLocks) -> None:
    theirs.take("a")
    theirs.close()
    seized = ours.seize("a")
    assert seized is not None
    assert not is_dead(theirs, "a")
    with pytest.raises(StoreBusy):
        theirs.take("a")
    seized.remove()
    seized.release()
    theirs.take("a")  # a new file, and a new lock
    assert not is_dead(ours, "a")


def test_a_lock_on_a_file_that_was_replaced_meanwhile_counts_for_nothing(
    ours: NodeLocks, theirs: NodeLocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs.take("a")
    theirs.close()
    path = tmp_path / "x.db.nodes" / "a.lock"
    open_file, opened = os.open, []

    def open_and_lose(*arguments: object, **options: object) -> int:
        descriptor = open_file(*arguments, **options)  # type: ignore[arg-type]
        if arguments[0] == path and not opened:
            opened.append(descriptor)
            path.unlink()  # between the opening and the locking, somebody buried the old node
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    ours.take("a")
    assert opened
    assert path.exists()
    assert not is_dead(theirs, "a")


@pytest.mark.attack("Z14")
@pytest.mark.parametrize("node", ["../a", "a/b", "a\0b", ".", "..", "ä 'b\"", ""])
def test_whatever_a_node_is_called_its_file_lies_in_the_folder(ours: NodeLocks, tmp_path: Path, node: str) -> None:
    ours.take(node)
    assert len(list((tmp_path / "x.db.nodes").iterdir())) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"x.db.nodes"}


def test_where_nothing_can_be_written_joining_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.db.nodes").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="node locks"):
        NodeLocks(tmp_path / "x.db.nodes").take("a")


def test_where_there_are_no_such_locks_nothing_is_proved(
    ours: NodeLocks, theirs: NodeLocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs.take("a")
    theirs.close()
    monkeypatch.setattr("outlast.stores.sqlite.locks.HAS_LOCKS", False)
    assert not is_dead(ours, "a")
    ours.take("b")
    assert [path.name for path in (tmp_path / "x.db.nodes").iterdir()] == ["a.lock"]
    ours.drop("b")
