"""Ports that are free, and those that are not."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator

import pytest

from tokenweir.stack import ports
from tokenweir.stack.failure import PortsTakenError
from tokenweir.stack.ports import LAST_PORT, free_port, require_ports


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_free_ports_are_fine() -> None:
    """Nothing is said of ports that can be listened on, and they stay free."""
    port = free_port()
    require_ports({port: "--port"})
    require_ports({port: "--port"})


def test_a_taken_port_is_told_with_another(taken: int) -> None:
    """The message names the port, the option, and a port that is free."""
    with pytest.raises(PortsTakenError) as error:
        require_ports({taken: "--port"})

    match = re.fullmatch(
        rf"Port {taken} is taken by another program\. Choose another: --port (\d+)",
        str(error.value),
    )
    assert match
    require_ports({int(match[1]): "--port"})


def test_two_ports_get_two_others(taken: int) -> None:
    """What is proposed for one port is neither wanted nor proposed for another."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        second = server.getsockname()[1]
        wanted = {taken: "--port", second: "--admin-port", free_port(): "--x"}
        with pytest.raises(PortsTakenError) as error:
            require_ports(wanted)

    proposed = [int(line.split()[-1]) for line in str(error.value).splitlines()]
    assert len({*proposed, *wanted}) == len(proposed) + len(wanted)


def test_a_row_gets_another_row(taken: int) -> None:
    """Ports that one option chooses are told together, with where all of them fit."""
    row = range(taken - 1, taken + 2)
    with pytest.raises(PortsTakenError) as error:
        require_ports(dict.fromkeys(row, "--admin-port"))

    text = str(error.value)
    assert f"Port {taken} is taken by another program." in text
    assert text.count("--admin-port") == 1
    first = int(text.rsplit(maxsplit=1)[-1])
    require_ports(dict.fromkeys(range(first, first + 3), "--admin-port"))


def test_a_stack_of_ones_own_in_the_way_is_told(taken: int) -> None:
    """Nobody has to guess that it is a `tokenweir up` in another terminal."""
    with pytest.raises(PortsTakenError) as error:
        require_ports({taken: "--port"}, {taken})

    text = str(error.value)
    assert f"Port {taken} is taken by another `tokenweir up`: use that one" in text
    assert "Ctrl-C. Choose another: --port" in text


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "is reserved for root"),
        (errno.EADDRNOTAVAIL, "can't be used"),
    ],
)
def test_other_obstacles_are_told_as_such(
    number: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port is not called taken if something else keeps us from it."""

    class Socket(socket.socket):
        def bind(self, address: object, /) -> None:
            if address == ("127.0.0.1", 80):
                raise OSError(number, "no")

    monkeypatch.setattr(socket, "socket", Socket)

    with pytest.raises(PortsTakenError, match=f"Port 80 {reason}.*--port 1024"):
        require_ports({80: "--port"})


def test_a_port_that_does_not_exist_is_told() -> None:
    """The ports of many workers may go beyond the last one there is."""
    with pytest.raises(PortsTakenError, match="Port 65536 does not exist"):
        require_ports({LAST_PORT + 1: "--admin-port"})


def test_above_the_last_port_any_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no higher port is free, a lower one is proposed."""
    monkeypatch.setattr(ports, "_obstacle", lambda _: "is taken by another program")

    with pytest.raises(PortsTakenError) as error:
        require_ports({LAST_PORT: "--port"})

    assert 0 < int(str(error.value).split()[-1]) <= LAST_PORT
