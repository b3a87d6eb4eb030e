"""The client without asyncio: the same answers and errors, from a loop of its own that ends with it."""

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from outlast import Keep, connect_sync
from outlast.client.received import ReceivedEvent
from outlast.errors import ClientClosed, InputInvalid, RunNotFound
from outlast.log.event import Event
from outlast.supervision.phase import Phase
from tests.peer import Answer, Peer, served

LOG = b"".join(
    b"event: %b\nid: %d\ndata: %b\n\n" % (each.type.encode(), seq, each.payload)
    for seq, each in enumerate([Event("text", "a"), Event("text", "b"), Event("run.completed", {})], start=1)
)


def of_ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "outlast client"]


def test_a_run_is_started_and_followed_to_its_end_without_a_loop_of_ones_own() -> None:
    with served(Peer((201, {"id": "r1", "status": "queued"}), (200, LOG))) as peer, connect_sync(peer.url) as client:
        run = client.start("chat", {"text": "hello"}, id="r1")
        received = [each.data for each in client.follow(run["id"]) if isinstance(each, ReceivedEvent)]
        assert (received, client.record.link.phase) == (["a", "b", {}], Phase.LIVE)
    assert peer.asked[0][1:] == (
        "/agents/runs",
        {"worker": "chat", "input": {"text": "hello"}, "id": "r1", "thread": None},
    )
    assert of_ours() == []


def test_a_refusal_is_raised_where_it_was_asked_for() -> None:
    refusal = (404, {"code": "run_not_found", "detail": "There is no such run."})
    with served(Peer(refusal)) as peer, connect_sync(peer.url) as client:
        with pytest.raises(RunNotFound, match="no such run"):
            client.status("r1")
        with pytest.raises(RunNotFound):
            next(iter(client.follow("r1")))
        with pytest.raises(InputInvalid, match="visible"):
            client.wakeup("tomorrow")
        client.wakeup("visible", seconds=1.0)


def test_leaving_a_follow_in_the_middle_leaves_the_client_as_it_was() -> None:
    with served(Peer((200, LOG), (200, {"id": "r1", "status": "completed"}))) as peer, connect_sync(peer.url) as client:
        for received in client.follow("r1"):
            assert received.cursor.seq == 1
            break
        assert client.status("r1")["status"] == "completed"
        assert client.record.runs == {}
    assert of_ours() == []


def test_a_follow_that_is_left_after_its_client_was_ended_with_it() -> None:
    with served(Peer((200, LOG))) as peer:
        with connect_sync(peer.url) as client:
            following = client.follow("r1")
            assert isinstance(following, Generator)
            next(following)
        following.close()
        with pytest.raises(ClientClosed):
            next(client.follow("r1"))


def test_what_is_kept_is_had_without_a_loop_too(tmp_path: Path) -> None:
    keep = Keep(tmp_path / "client.db", server="chat")
    busy = (409, {"code": "thread_busy", "detail": "No.", "live": "r0"})
    with served(Peer((201, {}), busy, (200, {}), (200, LOG))) as peer:
        with connect_sync(peer.url, keep=keep) as client:
            started = client.outbox.settled(client.outbox.start("chat", {"text": "hello"}, id="r1", thread="t"))
            refused = client.outbox.settled(client.outbox.start("chat", id="r2"))
            stopped = client.outbox.settled(client.outbox.stop("r1", reason="enough"))
            assert [send.state for send in client.outbox.sends()] == ["accepted", "rejected", "accepted"]
            assert [send.code for send in (started, refused, stopped)] == [None, "thread_busy", None]
            assert client.outbox.forget(refused)
            taken = [each.cursor.seq for _, each in zip(range(2), client.follow("r1"), strict=False)]
            assert taken == [1, 2]
        with connect_sync(peer.url, keep=keep) as client:
            assert [each.cursor.seq for each in client.follow("r1")] == [2, 3]
            assert len(client.outbox.sends()) == 2


def test_an_impossible_url_is_refused_where_the_block_begins() -> None:
    with pytest.raises(InputInvalid, match="http://127"), connect_sync("nowhere"):
        pass
    assert of_ours() == []


def test_the_options_of_a_client_are_those_of_connect() -> None:
    with pytest.raises(InputInvalid, match="transports"), connect_sync("http://127.0.0.1:1", transports=["pigeon"]):
        pass


def test_a_client_that_has_ended_says_so() -> None:
    with served(Peer((200, LOG))) as peer:
        with connect_sync(peer.url) as client:
            assert client.record.link.phase is not Phase.CLOSED
        with pytest.raises(ClientClosed):
            client.status("r1")


# ---- broken off ---------------------------------------------------------------------------------


class Silent(Peer):
    """A server that answers nothing but who it is until it is `free`."""

    def __init__(self) -> None:
        super().__init__((200, {"id": "r1", "status": "completed"}))
        self.reached, self.free = threading.Event(), threading.Event()

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        answer = super().answer(method, path, body, headers)
        if path.endswith("/session") or self.free.is_set():
            return answer
        self.reached.set()
        assert self.free.wait(timeout=30.0)
        return None


@contextmanager
def aside(do: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread meanwhile."""
    thread = threading.Thread(target=do)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextmanager
def interrupted(reached: threading.Event, *, then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Press Ctrl-C when something is reached; it raises where the test waits then."""

    def press() -> None:
        assert reached.wait(timeout=30.0)
        signal.pthread_kill(cast("int", threading.main_thread().ident), signal.SIGINT)
        then()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with aside(press), pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_follow_that_is_broken_off_is_over_and_the_client_goes_on() -> None:
    with served(Silent()) as peer, connect_sync(peer.url) as client:
        assert isinstance(peer, Silent)
        with interrupted(peer.reached):
            next(iter(client.follow("r1")))
        assert client.record.runs == {}
        peer.free.set()
        assert client.status("r1")["status"] == "completed"


def test_a_block_that_is_broken_off_while_it_begins_leaves_no_thread(tmp_path: Path) -> None:
    class Slow(Keep):
        reached, free = threading.Event(), threading.Event()

        async def open(self) -> None:
            self.reached.set()
            assert self.free.wait(timeout=30.0)
            await super().open()

    keep = Slow(tmp_path / "client.db")
    with interrupted(keep.reached, then=keep.free.set), connect_sync("http://127.0.0.1:1", keep=keep):
        pass
    assert of_ours() == []


def test_a_call_that_waits_when_the_client_ends_is_told_so() -> None:
    told: list[type[BaseException]] = []
    with served(Silent()) as peer:
        assert isinstance(peer, Silent)
        with connect_sync(peer.url) as client:

            def call() -> None:
                try:
                    next(iter(client.follow("r1")))
                except BaseException as error:  # noqa: BLE001 - which one it is is what is asked
                    told.append(type(error))

            waiting = threading.Thread(target=call)
            waiting.start()
            assert peer.reached.wait(timeout=30.0)
        waiting.join()
        peer.free.set()
    assert told == [ClientClosed]
