"""A history: observations in order, how it all ended, and one hash over everything."""

from dataclasses import replace

from outlast.log.cursor import origin
from outlast.run import Cancelled, Run, Status
from outlast.testing.history import History
from outlast.testing.observation import CallBegan, RowSeen

ROW = Run(owner="", id="r1", log="log1", worker="chat", input=b"null", digest=b"")


def seen(row: Run, *, at: float = 0.0) -> RowSeen:
    return RowSeen(at=at, now=at, row=row)


def test_observations_come_back_by_their_kind_in_order() -> None:
    history = History()
    called = [CallBegan(at=at, run="r1", epoch=1, number=1) for at in (1.0, 2.0)]
    for each in (called[0], seen(ROW), called[1]):
        history.note(each)
    assert list(history.of(CallBegan)) == called
    assert history.rows_seen() == {"log1": [seen(ROW)]}
    assert (history.log_of("r1"), history.log_of("r2")) == ("log1", None)


def test_the_end_is_kept_by_the_identity_of_the_log() -> None:
    history = History()
    history.finish([ROW], {"log1": []})
    assert (history.rows, history.logs) == ({"log1": ROW}, {"log1": []})


def test_the_digest_tells_histories_apart_by_everything_but_a_claim_id_the_store_minted() -> None:
    stopped = replace(ROW, status=Status.CANCELLED, outcome=Cancelled(), claim="minted by the store")

    def digest(*observations: RowSeen) -> str:
        history = History()
        for each in observations:
            history.note(each)
        return history.digest()

    assert digest(seen(ROW)) == digest(seen(ROW))
    assert digest(seen(stopped)) == digest(seen(replace(stopped, claim="another")))
    others = [digest(), digest(seen(ROW)), digest(seen(ROW, at=1.0)), digest(seen(ROW), seen(ROW))]
    others += [digest(seen(replace(ROW, claim="c"))), digest(seen(stopped))]
    assert len(set(others)) == len(others)


def test_the_digest_covers_the_logs() -> None:
    empty, other = History(), History()
    other.finish([ROW], {"log1": [origin("log1")]})  # type: ignore[list-item]  # anything that can be written down
    assert empty.digest() != other.digest()
