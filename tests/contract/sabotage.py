"""Stores that work but for one method, which breaks a promise: what the contract must find out."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import pytest

from outlast.errors import OutlastError
from outlast.stores.base import Store
from outlast.testing.contract import Workbench
from tests.contract.bench import SQLiteBench, StandingClock

Check: TypeAlias = Callable[..., Awaitable[None]]
Broken: TypeAlias = Mapping[str, Callable[..., Any]]
"""Methods by their names, `start` of the runs, `logs.append` or `renewer`; each is given the sound store first."""

FOUND = (AssertionError, pytest.fail.Exception, OutlastError, ValueError, TimeoutError)
"""How a check says that a store is broken."""


class Port:
    """A port whose named methods are replaced, and that is sound otherwise."""

    def __init__(self, port: object, sound: Store, broken: Broken) -> None:
        self._port = port
        self._replaced = {name: partial(method, sound) for name, method in broken.items()}

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(self._port, name)


def break_store(sound: Store, broken: Broken) -> Any:
    """Return `sound` with these methods replaced."""
    of_logs = {name.removeprefix("logs."): method for name, method in broken.items() if name.startswith("logs.")}
    of_runs = {name: method for name, method in broken.items() if not name.startswith("logs.")}
    store: Any = Port(sound, sound, broken)
    store.runs, store.logs = Port(sound.runs, sound, of_runs), Port(sound.logs, sound, of_logs)
    return store


async def examine(check: Check, broken: Broken, **arguments: Any) -> None:
    """Run one check of the contract on a store in memory of which some methods are replaced."""
    bench: Any = SQLiteBench(None, clock=StandingClock())
    sound = await bench.open()
    store = break_store(sound, broken)
    benched: Any = Port(bench, sound, {"again": lambda _: _answer(store)})
    benched.store = store
    given = {"store": store, "bench": benched, "handles": [store, store], **arguments}
    wanted = [name for name in inspect.signature(check).parameters if name != "self"]
    try:
        await check(None, **{name: given[name] for name in wanted})
    finally:
        await bench.close()


async def _answer(store: Workbench) -> Workbench:
    return store


async def check_found_out(check: Check, broken: Broken, **arguments: Any) -> None:
    """Check that a check of the contract passes on the sound store and fails on the broken one."""
    await examine(check, {}, **arguments)
    with pytest.raises(FOUND):
        await examine(check, broken, **arguments)
