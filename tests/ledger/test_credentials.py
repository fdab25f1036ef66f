"""Passwords that are in files, and change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.ledger.builders import Recorder
from tests.ledger.conftest import PATIENCE
from tests.pod import until
from tests.servers import REDIS_SERVER, Server, start_redis, start_valkey
from tokenweir.core.errors import LedgerUnavailableError
from tokenweir.ledger.address import address_of
from tokenweir.ledger.credentials import PasswordFile, PasswordFileError
from tokenweir.ledger.link import Link

# It changes many bytes of a URL, and is no reason to be careful here.
OLD, NEW = "pä ss:w@rd/1", "an-other"


@pytest.fixture(params=["valkey", "redis"])
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server whose user is asked for a password."""
    if request.param == "redis" and not REDIS_SERVER.exists():
        pytest.skip(f"needs Debian's Redis at {REDIS_SERVER}")
    start = start_valkey if request.param == "valkey" else start_redis
    server = start(tmp_path)
    rotate(server, f">{OLD}", "+@all", "on")
    yield server
    server.stop()


def rotate(server: Server, *rules: str) -> None:
    """Change the user."""
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "weir", *rules)


def hang_up(server: Server) -> None:
    """End every connection, as when a server restarts."""
    with redis.Redis.from_url(server.url) as client:
        client.client_kill_filter(_type="normal", skipme=True)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_rotation_needs_no_restart(
    guarded: Server, tmp_path: Path, protocol: int, events: Recorder
) -> None:
    """
    While both passwords hold nothing fails; who has the old one only is told so, and goes
    on by itself once the file has the new one.
    """
    file = tmp_path / "password"
    file.write_text(f"{OLD}\n")
    url = f"{guarded.url}?protocol={protocol}&username=weir&password_file={file}"
    link = Link(url, events, deadline_seconds=PATIENCE)
    await link.ping()
    rotate(guarded, f">{NEW}")
    file.write_text(NEW)
    hang_up(guarded)
    await until(lambda: answers(link))
    events.reasons.clear()

    rotate(guarded, "resetpass", ">third")
    hang_up(guarded)
    await until(lambda: is_told(link, events, "AuthenticationError"))
    assert OLD not in str(events.faults)
    file.write_text("third")
    await until(lambda: answers(link))
    file.unlink()
    hang_up(guarded)
    await until(lambda: is_told(link, events, "PasswordFileError"))
    assert events.faults == []
    await link.close()


async def answers(link: Link) -> bool:
    """Tell if there is an answer."""
    try:
        await link.ping()
    except LedgerUnavailableError:
        return False
    return True


async def is_told(link: Link, events: Recorder, reason: str) -> bool:
    """Tell if a call fails for that *reason*."""
    return not await answers(link) and events.reasons[-1] == reason


def test_user_and_password(tmp_path: Path) -> None:
    """Without a user it is the default one's; only the line's end is left out."""
    file = tmp_path / "password"
    file.write_bytes(b" a b \r\n")

    assert PasswordFile(str(file)).get_credentials() == (" a b ",)
    assert PasswordFile(str(file), "weir").get_credentials() == ("weir", " a b ")


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff"])
def test_no_password_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    """It is not taken for a server that wants none."""
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PasswordFileError):
        PasswordFile(str(file)).get_credentials()


def test_an_address_shows_no_password(tmp_path: Path) -> None:
    """Neither it nor the file's name is in what is printed of an address."""
    file = tmp_path / "password"
    file.write_text(OLD)
    shown = repr(address_of(f"redis://weir@h?password_file={file}"))

    assert OLD not in shown
    assert str(file) not in shown
