"""Fixtures for the tests of Envoy's configuration."""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pytest_asyncio import is_async_test

with warnings.catch_warnings():
    # Envoy's generated classes use what pydantic has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from tests.envoyconf.gateway import Gateway, gateway


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of a module share an event loop, and so a gateway."""
    module_loop = pytest.mark.asyncio(loop_scope="module")
    for item in items:
        if Path(__file__).parent in item.path.parents and is_async_test(item):
            item.add_marker(module_loop, append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway() -> AsyncIterator[Gateway]:
    """Run one gateway for all tests of a module that want nothing special."""
    async with gateway() as running:
        yield running


@pytest.fixture
def gate(shared_gateway: Gateway) -> Gateway:
    """Return the module's gateway, as if nothing had happened yet."""
    shared_gateway.reset()
    return shared_gateway
