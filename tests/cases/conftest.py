"""What all cases share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.cases.stage import Stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Give a module its stage; its tests need `asyncio(loop_scope="module")`."""
    async with Stage.open() as opened:
        yield opened
