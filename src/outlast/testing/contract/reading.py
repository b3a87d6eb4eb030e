"""Reading logs: in order, in pages, only what is durable, and never a silent hole."""

import asyncio

import pytest

from outlast.errors import StoreCorrupt
from outlast.log.cursor import origin
from outlast.log.event import Event
from outlast.run import Run
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import MANY, MANY_BYTES, A, drive, events, join, say, start, texts, unchanged


class Reading(Contract):
    """`LogStore.read` and `chain_at`."""

    # ---- pages ----

    @pytest.mark.parametrize(
        ("after", "limit", "seqs"),
        [
            (0, 2, [1, 2]),
            (0, 5, [1, 2, 3, 4, 5]),
            (0, 9, [1, 2, 3, 4, 5]),
            (2, 2, [3, 4]),
            (4, 2, [5]),
            (5, 2, []),
            (9, 2, []),
            (2**63 - 1, 2, []),
        ],
    )
    async def test_a_page_begins_behind_its_place_and_is_limited(
        self, store: Store, after: int, limit: int, seqs: list[int]
    ) -> None:
        run = await _five(store)
        page = await store.logs.read(run.log, after=after, limit=limit, max_bytes=MANY_BYTES)
        assert [stored.seq for stored in page] == seqs

    @pytest.mark.parametrize("max_bytes", [1, 9, 10, 11, 25, 49, 50, MANY_BYTES])
    async def test_a_page_has_about_the_bytes_asked_for_and_at_least_one_event(
        self, store: Store, max_bytes: int
    ) -> None:
        run = await _five(store)
        page = await store.logs.read(run.log, after=0, limit=MANY, max_bytes=max_bytes)
        sizes = [len(stored.event.payload) for stored in page]
        assert page
        assert sum(sizes[:-1]) <= max_bytes
        assert sum(sizes) >= min(max_bytes - 9, 50)  # another one would still have fitted

    @pytest.mark.parametrize(("limit", "max_bytes"), [(1, MANY_BYTES), (2, MANY_BYTES), (MANY, 1), (MANY, 25)])
    async def test_pages_meet(self, store: Store, limit: int, max_bytes: int) -> None:
        run = await _five(store)
        read = list[Event]()
        while page := await store.logs.read(run.log, after=len(read), limit=limit, max_bytes=max_bytes):
            read += [stored.event for stored in page]
        assert read == [stored.event for stored in await events(store, run)]

    async def test_logs_are_read_apart(self, store: Store) -> None:
        await join(store, A)
        one, other = await drive(store, "r1"), await drive(store, "r2")
        for word in ("a", "b"):
            await say(store, one, word)
            await say(store, other, word * 2)
        assert [stored.event for stored in await events(store, one)] == texts("a", "b")
        assert [stored.event for stored in await events(store, other)] == texts("aa", "bb")

    async def test_reading_changes_nothing(self, store: Store) -> None:
        run = await _five(store)
        async with unchanged(store):
            await store.logs.read(run.log, after=2, limit=2, max_bytes=1)
            await store.logs.chain_at(run.log, 3)
            await store.logs.head(run.log)

    # ---- only what is durable ----

    @pytest.mark.behaviour("F2")
    async def test_a_read_beside_an_append_sees_all_of_it_or_nothing_and_stays_true(
        self, store: Store, bench: Workbench
    ) -> None:
        await join(store, A)
        run = await drive(store)
        other = await bench.again()
        for number in range(20):
            before = [stored.event for stored in await events(store, run)]
            batch = texts(f"{number}a", f"{number}b")
            results = await asyncio.gather(
                say(store, run, f"{number}a", f"{number}b"), events(store, run), events(other, run)
            )
            for seen in results[1:]:
                assert [stored.event for stored in seen] in (before, before + batch)
            assert [stored.event for stored in await events(other, run)] == before + batch

    # ---- never a silent hole ----

    @pytest.mark.behaviour("L13")
    @pytest.mark.parametrize("seq", [1, 2, 3, 4, 5])
    async def test_a_lost_event_is_reported(self, store: Store, bench: Workbench, seq: int) -> None:
        run = await _five(store)
        await bench.lose(run.log, seq)
        with pytest.raises(StoreCorrupt):
            await events(store, run)
        with pytest.raises(StoreCorrupt):
            await store.logs.read(run.log, after=seq - 1, limit=MANY, max_bytes=MANY_BYTES)

    @pytest.mark.behaviour("L13")
    @pytest.mark.parametrize("seq", [1, 2, 3, 4, 5])
    async def test_a_spoilt_event_is_reported(self, store: Store, bench: Workbench, seq: int) -> None:
        run = await _five(store)
        await bench.spoil(run.log, seq)
        with pytest.raises(StoreCorrupt):
            await events(store, run)
        with pytest.raises(StoreCorrupt):
            await store.logs.read(run.log, after=seq - 1, limit=1, max_bytes=MANY_BYTES)

    @pytest.mark.behaviour("L13")
    async def test_an_event_that_is_no_bytes_is_reported(self, store: Store, bench: Workbench) -> None:
        run = await _five(store)
        await bench.retype(run.log, 3)
        with pytest.raises(StoreCorrupt):
            await events(store, run)
        with pytest.raises(StoreCorrupt):
            await store.logs.read(run.log, after=2, limit=1, max_bytes=MANY_BYTES)

    @pytest.mark.behaviour("L13")
    async def test_what_stands_before_a_lost_event_is_still_read(self, store: Store, bench: Workbench) -> None:
        run = await _five(store)
        await bench.lose(run.log, 4)
        page = await store.logs.read(run.log, after=0, limit=3, max_bytes=MANY_BYTES)
        assert [stored.seq for stored in page] == [1, 2, 3]

    # ---- places ----

    async def test_the_chain_is_told_at_every_stored_place_and_nowhere_else(self, store: Store) -> None:
        run = await _five(store)
        chains = {stored.seq: stored.cursor.chain for stored in await events(store, run)}
        for seq in (0, 1, 2, 3, 4, 5, 6, 2**63 - 1):
            assert await store.logs.chain_at(run.log, seq) == chains.get(seq)

    async def test_an_empty_log_has_no_place(self, store: Store) -> None:
        run = await start(store)
        assert list(await events(store, run)) == []
        assert await store.logs.chain_at(run.log, 1) is None


async def _five(store: Store) -> Run:
    """Let a log hold five events of ten bytes each."""
    await join(store, A)
    run = await drive(store)
    await store.logs.append(run.log, run.token, origin(run.log), [Event(f"e{n}", b"0123456789") for n in range(1, 6)])
    return run
