"""What a host's own code reads: the same items that a reader elsewhere gets."""

import pytest

from outlast.assembly.reading import Reading
from outlast.client.received import ReceivedEvent, ReceivedGap
from outlast.errors import InputInvalid, RunNotFound
from outlast.log.cursor import Cursor
from outlast.server.seats import Seats
from tests.stage import Site, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

START = Cursor(0, None)


def reading(here: Site) -> Reading:
    return Reading(here.stage.intake, here.store.logs, here.hub, Seats())


async def test_events_are_those_of_the_owners_run_in_the_order_of_its_log() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active(owner="ann")
        await stage.say(run, "a", "b")
        await stage.settle(run)
        log = await stage.log(run)
        taken = [each async for each in reading(here).events(owner="ann", id="r1", after=START, types=None)]
        assert taken == [ReceivedEvent(cursor=each.cursor, event=each.event) for each in log]
        rest = [each async for each in reading(here).events(owner="ann", id="r1", after=log[0].cursor, types={"b"})]
        assert rest == taken[2:]


async def test_a_gap_is_an_item_with_its_snapshot() -> None:
    async with staged() as stage, site(stage) as here:
        run = await stage.active()
        await stage.say(run, "a", "b")
        await stage.settle(run)
        gap, end = [each async for each in reading(here).events(owner="", id="r1", after=Cursor(9, None), types=None)]
        assert isinstance(gap, ReceivedGap)
        assert isinstance(end, ReceivedEvent)
        assert (gap.reason, gap.requested, gap.first, gap.is_end) == ("ahead", Cursor(9, None), 1, False)
        assert [(each.seq, each.data) for each in gap.snapshot] == [(2, "ab")]
        assert (gap.cursor, end.is_terminal) == (gap.snapshot[0].cursor, True)


async def test_another_owners_run_is_not_there_and_what_is_no_type_is_refused() -> None:
    async with staged() as stage, site(stage) as here:
        await stage.active(owner="ann")
        with pytest.raises(RunNotFound):
            await anext(reading(here).events(owner="bob", id="r1", after=START, types=None))
        with pytest.raises(InputInvalid):
            await anext(reading(here).events(owner="ann", id="r1", after=START, types={"no\ntype"}))
