"""The contract of a store, as tests that every engine passes: ours, and one that you wrote.

Every sentence of `outlast.stores.base` is a test here, written against its protocols alone. To hold a store to it,
say how it is put on a workbench, and inherit the contract:

    from outlast.testing.contract import StoreContract, Workbench

    class TestMyStore(StoreContract):
        @pytest.fixture
        async def bench(self) -> AsyncIterator[Workbench]:
            async with my_store_on_a_bench() as bench:
                yield bench

The tests never sleep: time passes by `Workbench.age`. They need pytest and anyio's plugin, which comes with anyio.
In the top `conftest.py`, `pytest_plugins = ["outlast.testing.contract"]` lets pytest know the marks by which each
test names the promises it proves.
"""

import pkgutil

import pytest

# Before they are imported: pytest explains the failing asserts of modules that it was told of, and of no others.
pytest.register_assert_rewrite(*(part.name for part in pkgutil.iter_modules(__path__, f"{__name__}.")))

from outlast.testing.contract.bench import Workbench  # noqa: E402
from outlast.testing.contract.suite import StoreContract  # noqa: E402

__all__ = ["StoreContract", "Workbench", "pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest know the marks of the contract's tests."""
    for kind in ("behaviour", "attack"):
        config.addinivalue_line("markers", f"{kind}(*ids): proves these promises of Outlast")
