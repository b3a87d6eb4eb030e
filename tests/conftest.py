"""What every test has: one backend, and long forms only when asked for."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the long forms too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="a long form: --all runs it"))


@pytest.fixture
def anyio_backend() -> str:
    # The shells are plain asyncio; a test on virtual time overrides this with its loop.
    return "asyncio"
