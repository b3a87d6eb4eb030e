"""What every test has: a loop, virtual where it is marked so; nothing left behind; long forms only when asked for."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from outlast.testing.clock import VirtualLoop
from outlast.testing.leaks import check_leaks

# A deadline per example would be a timed assertion on real time, which a busy machine fails.
settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=2000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the long forms too")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if config.getoption("--all") else "short")
    os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=/nowhere/bus"  # a test meets no bus but one that it brings


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="a long form: --all runs it"))


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    # The shells are plain asyncio, on whatever clock.
    return "asyncio", {"loop_factory": VirtualLoop} if request.node.get_closest_marker("virtual") else {}


@pytest.fixture
async def no_async_leaks() -> AsyncIterator[None]:
    async with check_leaks():
        yield


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves tasks, threads of ours or open files behind. Set up first, it looks last."""
    if "anyio_backend" in request.fixturenames:  # anyio gives it to asynchronous tests alone
        request.getfixturevalue("no_async_leaks")
        yield
    else:
        with check_leaks():
            yield
