import pytest

from outlast.errors import RunNotFound
from outlast.log.cursor import Cursor, Gap, GapReason
from outlast.log.limits import Usage
from outlast.run import Completed
from outlast.server.readers.place import Place, locate
from outlast.stores.base import Head
from tests.stage import Logs, Stage, staged

pytestmark = pytest.mark.anyio


async def told(stage: Stage) -> Logs:
    """Three events in one log, two others in another."""
    run = await stage.active("r1")
    await stage.say(run, "a", "b", "c")
    other = await stage.active("r2")
    await stage.say(other, "x", "y")
    return Logs(stage.store.logs)


async def cursors(stage: Stage, id: str = "r1") -> list[Cursor]:
    run = (await stage.store.runs.load("", id)).run
    return [stored.cursor for stored in await stage.log(run)]


async def log_of(stage: Stage, id: str = "r1") -> str:
    return (await stage.store.runs.load("", id)).run.log


async def test_reading_goes_on_right_behind_a_cursor() -> None:
    async with staged() as stage:
        logs, log = await told(stage), await log_of(stage)
        for cursor in [Cursor(0, None), Cursor(2, None), *await cursors(stage)]:
            place = await locate(logs, log, cursor)
            assert (place.after, place.gap, place.head.cursor.seq) == (cursor.seq, None, 3)


@pytest.mark.behaviour("F6")
async def test_a_cursor_that_cannot_be_served_is_told_as_a_gap() -> None:
    async with staged() as stage:
        logs, log = await told(stage), await log_of(stage)
        mine, others = await cursors(stage), await cursors(stage, "r2")
        for cursor, reason in [
            (Cursor(4, None), GapReason.AHEAD),
            (Cursor(2**63 - 1, b"\0" * 8), GapReason.AHEAD),
            (Cursor(2, b"\0" * 8), GapReason.MISMATCH),
            (Cursor(3, b"\0" * 8), GapReason.MISMATCH),
            (others[0], GapReason.MISMATCH),
            (others[1], GapReason.MISMATCH),
        ]:
            place = await locate(logs, log, cursor)
            assert place.gap is not None
            assert (place.gap.reason, place.gap.requested, place.gap.first) == (reason, cursor, 1)
            assert place.after == 0, "everything still readable follows"
        assert (await locate(logs, log, mine[2])).gap is None


@pytest.mark.behaviour("F6")
async def test_a_cursor_costs_the_head_and_at_most_one_indexed_read() -> None:
    async with staged() as stage:
        logs, log = await told(stage), await log_of(stage)
        mine = await cursors(stage)
        for cursor in [Cursor(0, None), Cursor(1, None), mine[0], mine[2], Cursor(1, b"\0" * 8), Cursor(9, b"\0" * 8)]:
            logs.calls.clear()
            await locate(logs, log, cursor)
            assert logs.calls["head"] == 1
            assert logs.calls["chain_at"] <= 1
            assert logs.calls["read"] == 0


async def test_the_end_is_the_head_of_a_sealed_log() -> None:
    async with staged() as stage:
        run = await stage.active()
        cursor = await stage.say(run, "a")
        assert not (await locate(stage.store.logs, run.log, cursor)).is_end
        await stage.settle(run, Completed())
        (_, terminal) = await cursors(stage)
        assert not (await locate(stage.store.logs, run.log, cursor)).is_end
        assert (await locate(stage.store.logs, run.log, terminal)).is_end
        assert (await locate(stage.store.logs, run.log, Cursor(2, None))).is_end
        for wrong in (Cursor(2, b"\0" * 8), Cursor(3, None)):
            assert not (await locate(stage.store.logs, run.log, wrong)).is_end, "a gap is told first"


def test_a_gap_is_told_even_where_nothing_is_left_to_be_read() -> None:
    head = Head(cursor=Cursor(3, b"\1" * 8), first=4, usage=Usage(events=3, bytes=0, opened_at=0), sealed=True)
    gap = Gap(reason=GapReason.TRIMMED, requested=Cursor(1, None), first=4)
    assert Place(after=3, head=head, gap=None).is_end
    assert not Place(after=3, head=head, gap=gap).is_end


async def test_an_unknown_log_is_not_found() -> None:
    async with staged() as stage:
        with pytest.raises(RunNotFound):
            await locate(stage.store.logs, "nowhere", Cursor(0, None))
