"""The contract as a suite: no test hides another, and it says what it needs."""

import inspect

import pytest

from outlast.run import Cause
from outlast.testing import contract
from outlast.testing.contract import StoreContract
from outlast.testing.contract.bench import Contract
from outlast.testing.contract.scene import A, drive, join, unchanged
from tests.contract.bench import SQLiteBench, StandingClock

pytest_plugins = ["pytester"]

PARTS = [part for part in StoreContract.__mro__ if issubclass(part, Contract) and part not in {Contract, StoreContract}]


def test_no_part_hides_a_test_or_a_fixture_of_another() -> None:
    names = [name for part in PARTS for name in vars(part) if not name.startswith("__") and name != "pytestmark"]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_part_is_made_of_async_tests(part: type[Contract]) -> None:
    tests = {name: check for name, check in vars(part).items() if name.startswith("test_")}
    assert tests
    assert all(inspect.iscoroutinefunction(check) for check in tests.values())
    assert (part.__doc__ or "").strip()


def test_a_suite_without_a_bench_is_told_what_it_lacks(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["outlast.testing.contract"]')
    pytester.makepyfile("""
        from outlast.testing.contract import StoreContract

        class TestMine(StoreContract):
            pass
    """)
    done = pytester.runpytest_subprocess("-q", "--strict-markers", "-k", "test_an_accepted_run_is_due_at_once")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*a contract needs a fixture `bench` that yields a Workbench*"])
    done.stdout.no_fnmatch_line("*PytestUnknownMarkWarning*")


def test_a_failing_check_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["outlast.testing.contract"]')
    pytester.makepyfile("""
        from types import SimpleNamespace
        import pytest
        from outlast.testing.contract import StoreContract

        class Backwards:
            def __init__(self):
                self.now_ = 7.0
                self.runs = self

            async def now(self):
                self.now_ -= 1.0
                return self.now_

        class Bench:
            store = Backwards()

            async def again(self):
                return self.store

        class TestMine(StoreContract):
            @pytest.fixture
            def bench(self):
                return Bench()
    """)
    done = pytester.runpytest_subprocess("-q", "-k", "test_the_clock_never_steps_back")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*assert [[]6.0, 5.0,*"])


def test_the_suite_is_what_its_front_door_shows() -> None:
    assert contract.__all__ == ["StoreContract", "Workbench", "pytest_configure"]


@pytest.mark.anyio
async def test_a_change_that_was_not_to_be_is_seen() -> None:
    bench = SQLiteBench(None, clock=StandingClock())
    store = await bench.open()
    await join(store, A)
    run = await drive(store)
    async with unchanged(store):
        await store.runs.nodes()
    with pytest.raises(AssertionError):
        async with unchanged(store):
            await store.runs.release(run, run.token, Cause.STORE)
    with pytest.raises(AssertionError):
        async with unchanged(store):
            await store.runs.refuse(run, retry_in=60)
    await bench.close()
