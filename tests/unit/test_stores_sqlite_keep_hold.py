"""Who sends: one lock a server, which the system drops with its process."""

from pathlib import Path

import pytest

from outlast.stores.sqlite.keep import hold
from outlast.stores.sqlite.keep.hold import Holds
from tests.disk import names


def test_a_lock_is_one_s_own_until_it_is_dropped(tmp_path: Path) -> None:
    ours, theirs = Holds(tmp_path / "senders"), Holds(tmp_path / "senders")
    assert ours.take("http://here")
    assert not ours.take("http://here")
    assert not theirs.take("http://here")
    assert theirs.take("http://there")
    for _ in range(2):
        ours.drop("http://here")
    assert theirs.take("http://here")
    theirs.close()
    assert ours.take("http://here")
    assert ours.take("http://there")
    ours.close()


def test_a_server_s_name_is_no_name_of_a_file(tmp_path: Path) -> None:
    holds = Holds(tmp_path / "senders")
    for server in ("http://here/" + "a/" * 500, "..", "\ud800"):
        assert holds.take(server)
    holds.close()
    assert len(names(tmp_path / "senders")) == 3
    assert names(tmp_path) == ["senders"]


def test_without_locks_only_clients_of_one_process_keep_out_of_each_other_s_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "HAS_LOCKS", False)
    ours, theirs = Holds(tmp_path / "senders"), Holds(tmp_path / "senders")
    assert ours.take("http://here")
    assert not ours.take("http://here")
    assert theirs.take("http://here")
    ours.close()
    assert ours.take("http://here")
    assert names(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "senders").write_text("")
    with pytest.raises(OSError, match="senders"):
        Holds(tmp_path / "senders").take("http://here")
