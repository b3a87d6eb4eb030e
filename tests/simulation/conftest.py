"""Every test here runs on virtual time."""

import pytest

from outlast.testing.clock import VirtualLoop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return ("asyncio", {"loop_factory": VirtualLoop})
