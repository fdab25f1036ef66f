"""What a Redis has been asked."""

from __future__ import annotations

import socket
from pathlib import Path

from bench.gateway.commandstats import Asked, asked, parse
from tests.servers import start_valkey

INFO = """# Commandstats
cmdstat_evalsha:calls=40,usec=400,usec_per_call=10.00,rejected_calls=0,failed_calls=0
cmdstat_fcall:calls=2,usec=9,usec_per_call=4.50,rejected_calls=0,failed_calls=0
cmdstat_hget:calls=100,usec=100,usec_per_call=1.00,rejected_calls=0,failed_calls=0
cmdstat_info:calls=3,usec=3,usec_per_call=1.00,rejected_calls=0,failed_calls=0
cmdstat_client|list:calls=1,usec=13,usec_per_call=13.00,rejected_calls=0,failed_calls=0
"""


def test_calls_are_those_of_scripts() -> None:
    """What scripts call is among commands; what we ask is among nothing."""
    assert parse(INFO) == Asked(calls=42, commands=142)


def test_nothing_asked_is_nothing() -> None:
    """As after CONFIG RESETSTAT."""
    assert parse("# Commandstats\n") == Asked(0, 0)


def test_since_is_the_difference() -> None:
    """Of both figures."""
    assert Asked(10, 50).since(Asked(4, 20)) == Asked(6, 30)


def test_a_real_server_tells(tmp_path: Path) -> None:
    """A script that calls twice is one call and three commands."""
    server = start_valkey(tmp_path)
    try:
        before = asked(server.path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(server.path))
            client.sendall(
                b"EVAL \"redis.call('SET','a',1) redis.call('GET','a')\" 0\r\n"
            )
            client.recv(64)

        assert asked(server.path).since(before) == Asked(1, 3)
    finally:
        server.stop()
