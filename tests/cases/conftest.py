"""What all cases share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.cases.faulty_processor import FILE_VARIABLE, Breaks
from tests.cases.stage import Stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    """Give a module its stage; its tests need `asyncio(loop_scope="module")`."""
    async with Stage.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def breaks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breaks]:
    """Yield what breaks a place of a faulty processor; it must start afterwards."""
    file = tmp_path_factory.mktemp("faults") / "fault"
    file.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FILE_VARIABLE, str(file))
        yield file.write_text
