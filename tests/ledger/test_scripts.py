import hashlib
import re
from importlib import resources

import pytest

from tests.ledger.builders import Recorder
from tests.servers import Server
from tokenweir.core import bucket, holding
from tokenweir.core.record import LABELS
from tokenweir.ledger import scripts
from tokenweir.ledger.link import Link
from tokenweir.ledger.scripts import Script

VERBS = [
    scripts.RESERVE,
    scripts.EXTEND,
    scripts.SETTLE,
    scripts.CANCEL,
    scripts.SWEEP,
    scripts.LOOK,
    scripts.AMEND,
]
FILES = sorted(
    path.name for path in resources.files("tokenweir.ledger").joinpath("lua").iterdir()
)


def code_of(source: str) -> str:
    """*source* without comments and texts."""
    return re.sub(r"--[^\n]*|'[^'\n]*'|\"[^\"\n]*\"", "", source)


@pytest.mark.parametrize("script", VERBS, ids=lambda script: script.name)
def test_every_constant_is_given(script: Script) -> None:
    """
    What a script calls by a name in capitals comes out of the core.
    """
    code = code_of(script.source)
    used = set(re.findall(r"\b[A-Z][A-Z_]{2,}\b", code)) - {"KEYS", "ARGV"}
    given = set(re.findall(r"^local ([A-Z_]+) =", code, re.MULTILINE))

    assert used == given
    assert f"local UNITS_PER_TOKEN = {bucket.UNITS_PER_TOKEN}\n" in script.source
    assert f"local TOMBSTONE_MS = {holding.TOMBSTONE_MS}\n" in script.source


def test_texts_reach_lua_as_they_are() -> None:
    """
    Names and separators are written byte by byte, so that nothing has to be quoted.
    """
    separator = re.search(
        r"^local SEPARATOR = (.*)$", scripts.SETTLE.source, re.MULTILINE
    )
    labels = re.search(
        r"^local LABELS = \{(.*)\}$", scripts.SETTLE.source, re.MULTILINE
    )

    assert separator is not None
    assert separator[1] == r'"\031"'
    assert labels is not None
    assert labels[1].count(",") == len(LABELS) - 1
    assert labels[1].startswith(r'"\104\111\108\100"')  # hold


@pytest.mark.parametrize("name", FILES)
def test_no_large_number_becomes_text_by_accident(name: str) -> None:
    """
    Lua writes 1e+15 for large numbers, unless it is told a format.
    """
    source = resources.files("tokenweir.ledger").joinpath("lua", name).read_text()
    code = code_of(source)

    assert source.startswith("-- ")
    assert not re.search(r"tostring|cjson|cmsgpack|%d|%g|%i", code)


def test_redis_calls_a_script_by_its_hash() -> None:
    """
    The name is the SHA-1 of the source, as EVALSHA wants it.
    """
    made = scripts.script_of("one", "return 1")

    assert made == Script("one", "return 1", hashlib.sha1(b"return 1").hexdigest())
    assert len({script.sha for script in VERBS}) == len(VERBS)


def test_the_lease_stands_alone() -> None:
    """
    It belongs to no tag, so it brings nothing of theirs along.
    """
    assert "UNITS_PER_TOKEN" not in scripts.LEASE.source


@pytest.mark.parametrize("server", ["valkey_server", "redis_server"])
async def test_servers_take_all_scripts(
    server: str, request: pytest.FixtureRequest
) -> None:
    """
    Each compiles, under the name that we call it by.
    """
    running: Server = request.getfixturevalue(server)
    link = Link(running.url, Recorder(), deadline_seconds=30)
    names = await link.read(
        [("SCRIPT", "LOAD", script.source) for script in (*VERBS, scripts.LEASE)]
    )

    assert [name.decode() for name in names] == [
        script.sha for script in (*VERBS, scripts.LEASE)
    ]
    await link.close()
