"""Appending events: all of a batch or none of it, behind the head alone, and to the byte."""

import asyncio
from typing import Final

import pytest

from outlast.errors import Fenced, HeadConflict, RunNotFound
from outlast.log.cursor import Cursor, chain, origin
from outlast.log.event import Event
from outlast.log.limits import MIB
from outlast.run import Completed, Token
from outlast.stores.base import Store
from outlast.testing.contract.bench import Contract, Workbench
from outlast.testing.contract.scene import A, B, drive, events, join, said, say, take, texts, unchanged

PAYLOADS: Final = {
    "empty": b"",
    "nul": b"\0a\0",
    "line ends": b"a\nb\rc\r\nd\n\re\r",
    "unicode line ends": "a\u2028b\u2029c\x85d".encode(),
    "half a pair": "\ud83d".encode("utf-8", "surrogatepass"),
    "no utf-8": b"\xff\xfe\x80",
    "every byte": bytes(range(256)),
    "byte order mark": b"\xef\xbb\xbfa",
    "a statement": b"'); DROP TABLE events; --",
    "a mebibyte": bytes(range(256)) * (MIB // 256),
    "eight mebibytes": b"\0\xff\r\n" * (2 * MIB),
}

TEXTS: Final = ["", "a\0b", "a\r\nb", "\u2028\u2029\x85", "\ud83d", "\ude00\ud83d", "\U0001f468\u200d\U0001f469", "ünï"]


class Appending(Contract):
    """`LogStore.append` and `head`."""

    # ---- the head ----

    @pytest.mark.behaviour("L1")
    async def test_appends_make_a_dense_chain_across_controllers(self, store: Store) -> None:
        await join(store, A, B)
        run = await drive(store)
        assert await say(store, run, "a", "b") == chain(origin(run.log), texts("a", "b"))[-1]
        await store.runs.leave(A)
        run = await take(store, run, B)
        await say(store, run, "c")
        await say(store, run, "d", "e")
        log = await events(store, run)
        assert [stored.seq for stored in log] == [1, 2, 3, 4, 5]
        assert [stored.cursor for stored in log] == chain(origin(run.log), texts("a", "b", "c", "d", "e"))
        assert [stored.epoch for stored in log] == [1, 1, 2, 2, 2]
        assert (await store.logs.head(run.log)).cursor == log[-1].cursor

    async def test_the_head_tells_what_the_log_holds(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        head = (await store.logs.head(run.log)).cursor
        cursor = await store.logs.append(run.log, run.token, head, [Event("a", b"12345"), Event("b", b"")])
        await store.logs.append(run.log, run.token, cursor, [Event("c", b"678")])
        held = await store.logs.head(run.log)
        assert (held.first, held.usage.events, held.usage.bytes, held.sealed) == (1, 3, 8, False)
        assert held.usage.opened_at == run.created_at

    @pytest.mark.behaviour("L4")
    async def test_what_is_outlasts_own_is_not_counted_and_a_checkpoint_is(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        own = [Event("run.started", {}), Event("run.restarted", {"keep": 0})]
        head = (await store.logs.head(run.log)).cursor
        await store.logs.append(run.log, run.token, head, [*own, Event("b", b"1234"), Event("run.checkpoint", {})])
        held = await store.logs.head(run.log)
        assert (held.cursor.seq, held.usage.events, held.usage.bytes) == (4, 2, 6)

    async def test_the_heads_of_many_logs_are_told_at_once(self, store: Store) -> None:
        await join(store, A)
        one, two = await drive(store, "r1"), await drive(store, "r2")
        await say(store, one, "a", "b")
        places = {run.log: (await store.logs.head(run.log)).cursor for run in (one, two)}
        assert dict(await store.logs.heads([one.log, two.log, "no-such-log"])) == places
        assert [place.seq for place in places.values()] == [2, 0]
        assert not await store.logs.heads([])

    async def test_events_are_kept_with_their_time(self, store: Store, bench: Workbench) -> None:
        await join(store, A)
        run = await drive(store)
        times = [await store.runs.now()]
        for word in ("a", "b"):
            await say(store, run, word)
            await bench.age(5)
            times.append(await store.runs.now())
        written = [stored.time for stored in await events(store, run)]
        assert times[0] <= written[0] <= times[1] <= written[1] <= times[2]

    async def test_a_log_that_never_was_is_not_found(self, store: Store) -> None:
        with pytest.raises(RunNotFound):
            await store.logs.head("no such log")

    # ---- to the byte ----

    @pytest.mark.behaviour("L6")
    @pytest.mark.parametrize("name", PAYLOADS)
    async def test_bytes_come_back_as_they_were(self, store: Store, name: str) -> None:
        await _check_kept(store, [Event("a", PAYLOADS[name]), Event("b", PAYLOADS[name], content_type="text/x-y; z=1")])

    @pytest.mark.behaviour("L6")
    @pytest.mark.parametrize("text", TEXTS, ids=ascii)
    async def test_texts_come_back_as_they_were(self, store: Store, text: str) -> None:
        await _check_kept(store, [Event("text", text), Event("data", {text: [text]})])

    async def test_longest_types_come_back_as_they_were(self, store: Store) -> None:
        await _check_kept(store, [Event("x" * 128, b""), Event("run.own", b"", content_type="a" * 64 + "/" + "b" * 64)])

    # ---- behind the head alone ----

    @pytest.mark.behaviour("L3")
    @pytest.mark.parametrize(
        "previous",
        [Cursor(1, b"12345678"), Cursor(2, b"12345678"), Cursor(3, b"12345678"), Cursor(0, b"12345678")],
        ids=["behind", "another past", "ahead", "another log"],
    )
    async def test_an_append_elsewhere_stores_nothing(self, store: Store, previous: Cursor) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a", "b")
        await _check_conflict(store, run.log, run.token, previous, texts("c", "d"))

    async def test_the_start_of_another_log_is_not_the_start_of_this_one(self, store: Store) -> None:
        await join(store, A)
        run, other = await drive(store, "r1"), await drive(store, "r2")
        await _check_conflict(store, run.log, run.token, origin(other.log), texts("a"))

    @pytest.mark.behaviour("L3")
    @pytest.mark.parametrize(
        "batch", [("x",), ("a", "x"), ("a", "b", "c"), ("b",)], ids=["other", "half", "longer", "later"]
    )
    async def test_an_append_of_other_events_than_stand_there_stores_nothing(
        self, store: Store, batch: tuple[str, ...]
    ) -> None:
        await join(store, A)
        run = await drive(store)
        await say(store, run, "a", "b")
        await _check_conflict(store, run.log, run.token, origin(run.log), texts(*batch))

    @pytest.mark.behaviour("L3", "H11")
    async def test_a_fenced_append_stores_nothing(self, store: Store) -> None:
        await join(store, A, B)
        old = await drive(store)
        cursor = await say(store, old, "a")
        await store.runs.leave(A)
        await take(store, old, B)
        async with unchanged(store):
            with pytest.raises(Fenced):
                await store.logs.append(old.log, old.token, cursor, texts("b", "c"))

    @pytest.mark.behaviour("H11")
    async def test_nothing_is_appended_to_a_sealed_log(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        start = (await store.logs.head(run.log)).cursor
        cursor = await store.logs.append(run.log, run.token, start, texts("a"))
        await store.runs.settle(run, run.token, Completed())
        head = (await store.logs.head(run.log)).cursor
        async with unchanged(store):
            for previous in (start, cursor, head):
                with pytest.raises(Fenced):
                    await store.logs.append(run.log, run.token, previous, texts("a"))

    # ---- together ----

    async def test_appends_to_many_logs_at_once_are_each_their_own(self, store: Store) -> None:
        await join(store, A)
        runs = [await drive(store, f"r{number}") for number in range(20)]
        await asyncio.gather(*(say(store, run, run.id, "end") for run in runs))
        for run in runs:
            assert await said(store, run) == [run.id, "end"]

    async def test_appends_to_one_log_may_be_under_way_together_in_order(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        batches = [texts(f"{number}a", f"{number}b") for number in range(20)]
        heads = [origin(run.log)]
        for batch in batches:
            heads.append(chain(heads[-1], batch)[-1])
        written = await asyncio.gather(
            *(store.logs.append(run.log, run.token, heads[n], batch) for n, batch in enumerate(batches))
        )
        assert list(written) == heads[1:]
        assert [stored.event for stored in await events(store, run)] == [event for batch in batches for event in batch]

    @pytest.mark.behaviour("L3")
    async def test_a_refused_append_harms_none_of_those_it_came_with(self, store: Store) -> None:
        await join(store, A)
        first, conflicting, fenced, last = [await drive(store, id) for id in ("r1", "r2", "r3", "r4")]
        results = await asyncio.gather(
            say(store, first, "a"),
            store.logs.append(conflicting.log, conflicting.token, Cursor(7, b"12345678"), texts("a")),
            store.logs.append(fenced.log, Token(epoch=1, claim="another"), origin(fenced.log), texts("a")),
            say(store, last, "a"),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [Cursor, HeadConflict, Fenced, Cursor]
        assert [await said(store, run) for run in (first, conflicting, fenced, last)] == [["a"], [], [], ["a"]]

    async def test_an_append_whose_caller_gave_up_may_be_asked_for_again(self, store: Store) -> None:
        await join(store, A)
        run = await drive(store)
        for number in range(10):
            head = (await store.logs.head(run.log)).cursor
            under_way = asyncio.create_task(store.logs.append(run.log, run.token, head, texts(f"{number}")))
            for _ in range(number):
                await asyncio.sleep(0)
            under_way.cancel()
            await asyncio.wait([under_way])
            await store.logs.append(run.log, run.token, head, texts(f"{number}"))
        assert await said(store, run) == [f"{number}" for number in range(10)]


async def _check_kept(store: Store, batch: list[Event]) -> None:
    await join(store, A)
    run = await drive(store)
    await store.logs.append(run.log, run.token, origin(run.log), batch)
    log = await events(store, run)
    assert [stored.event for stored in log] == batch
    assert [stored.cursor for stored in log] == chain(origin(run.log), batch)


async def _check_conflict(store: Store, log: str, token: Token, previous: Cursor, batch: list[Event]) -> None:
    async with unchanged(store):
        with pytest.raises(HeadConflict):
            await store.logs.append(log, token, previous, batch)
