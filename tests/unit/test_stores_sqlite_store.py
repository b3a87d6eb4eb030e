"""The whole store with real files and real processes: what was answered is there, whoever dies and whoever writes."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outlast.errors import OutlastError, SchemaNewer, StoreCorrupt, StoreUnavailable
from outlast.log.cursor import chain, origin
from outlast.log.event import Event
from outlast.run import Token
from outlast.stores.base import LogStore, RunStore, Store
from outlast.stores.sqlite import SQLiteStore
from outlast.testing.contract.scene import ANN, MANY_BYTES, A, drive, join, listed, said, say, start
from tests.disk import HandClock, behind, damage, ground, heard, names, opened, program, rest, tell

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


# ---- opening and closing ----


async def test_a_store_is_what_the_ports_ask_for(path: Path) -> None:
    store: Store = SQLiteStore(path)
    runs: RunStore = store.runs
    logs: LogStore = store.logs
    await store.open()
    await store.open()
    assert (store.runs, store.logs) == (runs, logs)
    await store.close()
    await store.close()
    assert names(path.parent) == ["x.db"]


async def test_a_store_that_was_never_opened_is_closed_all_the_same(path: Path) -> None:
    await SQLiteStore(path).close()
    assert names(path.parent) == []


async def test_a_closed_store_can_be_opened_again(path: Path) -> None:
    store = SQLiteStore(str(path), clock=HandClock())
    for word in ("a", "b"):
        await store.open()
        await start(store, word)
        await store.close()
    async with opened(path) as store:
        assert {run.id for run in await listed(store, ANN)} == {"a", "b"}


async def test_memory_is_gone_with_the_store_and_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        async with opened(None) as store:
            await join(store, A)
            assert await said(store, await drive(store)) == []
    assert names(tmp_path) == []


async def test_a_relative_path_stays_where_it_was_meant(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    async with opened(Path("x.db")) as store:
        monkeypatch.chdir(elsewhere)
        await join(store, A)
        keeper = store.renewer(A, ttl=1, workers=[])
        keeper.renew(stalled=False)
        keeper.close()
    assert names(elsewhere) == []


@pytest.mark.parametrize("name", ["with space.db", "what?mode=memory", "100%.db", ":memory:", "ünïcødé.db"])
async def test_any_file_name_is_a_file_name(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path / name) as store:
        await start(store)
    assert names(tmp_path) == [name]


# ---- what is not opened ----


async def test_a_missing_folder_is_told_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"does not exist: make .*nowhere first"):
        await SQLiteStore(tmp_path / "nowhere" / "x.db").open()


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await SQLiteStore(tmp_path).open()


@pytest.fixture(params=["A letter to my aunt. " * 100, "short"])
def letter(request: pytest.FixtureRequest, path: Path) -> Iterator[Path]:
    """A file that is no database, and that is the same afterwards."""
    path.write_text(request.param)
    yield path
    assert path.read_text() == request.param
    assert names(path.parent) == [path.name]


async def test_a_file_that_is_no_database_is_refused_and_left_alone(letter: Path) -> None:
    with pytest.raises(StoreCorrupt, match="no SQLite database"):
        await SQLiteStore(letter).open()


@pytest.fixture
def empty(path: Path) -> Path:
    path.touch()
    return path


async def test_an_empty_file_becomes_a_store(empty: Path) -> None:
    async with opened(empty) as store:
        await start(store)


async def test_a_newer_store_is_refused(path: Path) -> None:
    async with opened(path):
        pass
    with behind(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(SchemaNewer, match="999"):
        await SQLiteStore(path).open()


async def test_a_damaged_file_is_told_as_that(path: Path) -> None:
    async with opened(path) as store:
        await join(store, A)
        await say(store, await drive(store), *("word" * 500 for _ in range(50)))
    damage(path)
    with pytest.raises(StoreCorrupt):
        async with opened(path) as store:
            await store.runs.load(ANN, "r1")


# ---- processes that die ----

STARTER = """
from outlast.testing.contract.scene import new_run
async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open()
    run = (await store.runs.start(new_run())).run
    say(run.log)
    sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.behaviour("A2")
@pytest.mark.fault("X7")
async def test_an_answered_start_survives_the_death_of_its_process(path: Path) -> None:
    with program(STARTER, path) as process:
        log = heard(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    async with opened(path, clock=None) as store:
        assert (await store.runs.load(ANN, "r1")).run.log == log
        assert (await store.logs.head(log)).cursor == origin(log)


WRITER = """
async def main():
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = SQLiteStore(path)
    await store.open()
    token = Token(epoch=1, claim=name)
    heads = {}
    for number in range(4):
        log = f"{name}-{number}"
        await store.runs.start(NewRun(owner=name, id=log, log=log, worker="w", input=b"", digest=b""))
        heads[log] = origin(log)
    say("ready")
    sys.stdin.readline()

    async def write(log):
        for number in range(count):
            events = [Event("text", f"{log} {number} {part}") for part in "ab"]
            heads[log] = await store.logs.append(log, token, heads[log], events)
            say(f"{log} {heads[log]}")

    await asyncio.gather(*map(write, heads))
    await store.close()
    say("done")
asyncio.run(main())
"""


async def check(store: SQLiteStore, log: str, acknowledged: str | None) -> int:
    """Check that a log is dense, chained and holds what was acknowledged; return how many events it has."""
    head = await store.logs.head(log)
    stored = await store.logs.read(log, after=0, limit=2**31, max_bytes=MANY_BYTES)
    said = [Event("text", f"{log} {number // 2} {'ab'[number % 2]}") for number in range(len(stored))]
    assert [event.cursor for event in stored] == chain(origin(log), said)
    assert head.cursor == (stored[-1].cursor if stored else origin(log))
    if acknowledged is not None:
        seq = int(acknowledged.partition("-")[0])
        assert str(stored[seq - 1].cursor) == acknowledged
    return len(stored)


@pytest.mark.behaviour("L14", "L1")
@pytest.mark.fault("X7")
async def test_eight_processes_that_write_at_once_lose_nothing(path: Path) -> None:
    count, names = 25, [f"p{number}" for number in range(8)]
    with ExitStack() as stack:
        processes = [stack.enter_context(program(WRITER, path, name, count)) for name in names]
        assert [heard(process) for process in processes] == ["ready"] * 8
        for process in processes:
            tell(process, "go")
        words = [await asyncio.to_thread(rest, process) for process in processes]
        assert [process.wait() for process in processes] == [0] * 8
    assert all(word.endswith("done\n") for word in words)
    async with opened(path, clock=None) as store:
        for name in names:
            for number in range(4):
                assert await check(store, f"{name}-{number}", None) == 2 * count
        assert ground(store).connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.behaviour("L1", "L3")
@pytest.mark.fault("X7")
async def test_killed_in_the_middle_of_writing_a_file_is_whole_and_holds_what_was_answered(path: Path) -> None:
    acknowledged: dict[str, str] = {}
    with ExitStack() as stack:
        processes = [stack.enter_context(program(WRITER, path, f"p{number}", 100_000)) for number in range(2)]
        for process in processes:
            assert heard(process) == "ready"
            tell(process, "go")
        for process in processes:
            for _ in range(100):
                log, cursor = heard(process).split()
                acknowledged[log] = cursor
            process.send_signal(signal.SIGKILL)
        for process in processes:
            for line in rest(process).splitlines()[:-1]:
                log, cursor = line.split()
                acknowledged[log] = cursor
    async with opened(path, clock=None) as store:
        assert ground(store).connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        for log, cursor in acknowledged.items():
            assert await check(store, log, cursor) % 2 == 0  # each append whole or not at all
        log = next(iter(acknowledged))
        head = (await store.logs.head(log)).cursor
        await store.logs.append(log, Token(epoch=2, claim="successor"), head, [Event("text", "on")])


# ---- one process, several stores ----


async def test_several_stores_of_one_process_share_a_file(path: Path) -> None:
    clock = HandClock()
    async with opened(path, clock=clock) as one, opened(path, clock=clock) as two:
        await join(one, A)
        run = await drive(one)
        for word in "abcdef":
            await asyncio.gather(say(one, run, word), *(start(two, f"{word}{number}") for number in range(5)))
        assert await said(two, run) == list("abcdef")


async def test_errors_are_ours_whatever_is_wrong_with_the_file(path: Path) -> None:
    async with opened(path) as store:
        run = await start(store)
        with behind(path) as connection:
            connection.execute("DROP TABLE events")
            connection.execute("DROP VIEW run_rows")
        for refused in (
            store.runs.load(ANN, "r1"),
            store.logs.append(run.log, Token(epoch=1, claim="c"), origin(run.log), [Event("text", "a")]),
            start(store, "r2"),
        ):
            with pytest.raises(OutlastError):
                await refused


# ---- a disk that is full, a folder that is read-only ----


FILLER = """
import resource, sqlite3
from outlast.errors import StoreUnavailable

def allow(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    path = sys.argv[1]
    store = SQLiteStore(path)
    await store.open()
    token, head = Token(epoch=1, claim="c"), origin("log")
    await store.runs.start(NewRun(owner="ann", id="r1", log="log", worker="w", input=b"", digest=b""))
    for fills in range(3):
        allow(os.path.getsize(path + "-wal") + 200_000)
        refused = 0
        while refused < 3:
            try:
                head = await store.logs.append("log", token, head, [Event("bytes", b"x" * 30_000)])
            except StoreUnavailable as error:
                refused, code = refused + 1, error.code
        say(f"{code} {head}")
        assert (await store.logs.head("log")).cursor == head
        allow(resource.RLIM_INFINITY)
        head = await store.logs.append("log", token, head, [Event("text", "there is room again")])
        say(f"resumed {head}")
    await store.close()
    say("done")
asyncio.run(main())
"""


@pytest.mark.behaviour("L14")
@pytest.mark.fault("X7")
async def test_a_file_that_can_grow_no_more_refuses_typed_and_resumes_when_it_can(path: Path) -> None:
    with program(FILLER, path) as process:
        words = (await asyncio.to_thread(rest, process)).split("\n")
        assert process.wait() == 0
    assert [word.split()[0] for word in words if word] == [*["store_unavailable", "resumed"] * 3, "done"]
    async with opened(path, clock=None) as store:
        assert ground(store).connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert str((await store.logs.head("log")).cursor) == words[5].split()[1]
        stored = await store.logs.read("log", after=0, limit=2**31, max_bytes=MANY_BYTES)
        assert [event.event.type for event in stored].count("text") == 3


GUEST = """
import encodings.ascii  # while there is a right to read it
from outlast.errors import OutlastError

async def main():
    store = SQLiteStore(sys.argv[1])
    if os.getuid() == 0:
        os.setuid(65534)  # nobody: to root every folder can be written to
    try:
        await store.open()
        await store.runs.start(NewRun(owner="ann", id="r2", log="log2", worker="w", input=b"", digest=b""))
        say("written")
    except OutlastError as error:
        say(f"{error.code}: {error}")
    await store.close()
asyncio.run(main())
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Read every file of a folder; what SQLite shares among its readers is none."""
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file() and each.suffix != ".db-shm"}


def allow(folder: Path, *, folders: int, files: int) -> None:
    """Set what everybody may do in a folder."""
    for each in (folder, *folder.rglob("*")):
        each.chmod(folders if each.is_dir() else files)


@pytest.mark.behaviour("L14")
@pytest.mark.fault("X7")
@pytest.mark.parametrize("what", ["a new file in a read-only folder", "a read-only folder", "a read-only file"])
async def test_what_is_read_only_is_told_and_left_as_it_is(what: str) -> None:
    with TemporaryDirectory() as name:  # which nobody may enter, as they may not pytest's own
        folder = Path(name)
        path = folder / "x.db"
        if "new" not in what:
            async with opened(path, clock=None) as store:
                await start(store)
        before = contents(folder)
        allow(folder, folders=0o777 if what == "a read-only file" else 0o555, files=0o444)
        with program(GUEST, path) as process:
            said = rest(process)
            assert process.wait() == 0
        allow(folder, folders=0o755, files=0o644)
        assert said.startswith(("store_read_only: The store's file", "store_unavailable: The store's file"))
        assert before.items() <= contents(folder).items()
        async with opened(path, clock=None) as store:
            await start(store, "r3")
            assert ground(store).connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
