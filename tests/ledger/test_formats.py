"""Which formats are read. That each reader asks: tests/ledger/test_versions.py."""

from __future__ import annotations

import pytest
from redis.exceptions import NoPermissionError

from tests.ledger.builders import TAG
from tests.servers import Server
from tokenweir.core.errors import NewerFormatError
from tokenweir.ledger.formats import asking, require_known, require_told
from tokenweir.ledger.keys import FORMAT
from tokenweir.ledger.redis import RedisStore


def test_the_first_format_need_not_be_told() -> None:
    """Nothing is written of it; nor does it matter who may not look."""
    require_told([None, str(FORMAT).encode(), NoPermissionError("NOPERM")])


@pytest.mark.parametrize("told", [str(FORMAT + 1).encode(), b"0", b"x", b""])
def test_any_other_is_left_alone(told: bytes) -> None:
    """One of all is enough."""
    with pytest.raises(NewerFormatError):
        require_told([None, told])


async def test_one_key_of_each_tag_is_asked_for(
    server: Server, live: RedisStore
) -> None:
    """A tag without it is of the first format."""
    assert asking(["{tw:017}"]) == [("GET", "{tw:017}:f")]
    await require_known(live.link, [TAG, "tw:001"])
    await live.link.read([("SET", f"{{{TAG}}}:f", FORMAT + 1)])
    await require_known(live.link, ["tw:001"])
    with pytest.raises(NewerFormatError):
        await require_known(live.link, ["tw:001", TAG])
