"""`tokenweir guard` changes a pod's network, which is tried in one of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tokenweir.cli import guard as module
from tokenweir.cli.main import main

GROUP = 65417
PROVIDER = "198.51.100.1"  # of a range that is for documents
COMMAND = ["guard", "--port", "4000", "--group", str(GROUP)]
MISSING = [
    name
    for name in ("ip", "iptables-restore", "ip6tables-restore")
    if not shutil.which(name)
]

# Runs in the network: servers for whatever could be called, the command, and calls of
# an app (group 1000) and of our own containers.
_SCENE = r"""
import encodings.idna  # no app can read where Python is
import json, os, socket, ssl, sys, threading
from pathlib import Path
from unittest import mock
from tokenweir.cli.main import main

PROVIDER, GROUP, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])

def answer_one(connection, answer, context):
    try:
        if context:
            connection = context.wrap_socket(connection, server_side=True)
        connection.recv(1000)
        connection.sendall(answer)
    except OSError:
        pass
    connection.close()

def serve(address, answer, context=None):
    server = socket.create_server(address)
    def run():
        while True:
            # A client that was refused leaves its server waiting.
            arguments = (server.accept()[0], answer, context)
            threading.Thread(target=answer_one, args=arguments, daemon=True).start()
    threading.Thread(target=run, daemon=True).start()

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
serve((PROVIDER, 443), b"provider", context)
serve((PROVIDER, 8000), b"provider")
serve(("127.0.0.1", 4000), b"envoy")

client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
real = socket.getaddrinfo
def look_up(host, port, family=0, kind=0, *rest):
    if host in ("api.openai.com", "vllm.shop"):
        if family == socket.AF_INET6:
            raise socket.gaierror()
        return [(family, kind, 6, "", (PROVIDER, 0))]
    return real(host, port, family, kind, *rest)

def call(port, name=None):
    try:
        with socket.create_connection((PROVIDER, port), timeout=20) as plain:
            if name is None:
                plain.sendall(b"hi")
                return plain.recv(100).decode()
            with client.wrap_socket(plain, server_hostname=name) as secure:
                secure.sendall(b"hi")
                return secure.recv(100).decode()
    except ConnectionResetError:
        return "refused"

def calls(group):
    read, write = os.pipe()
    if os.fork() == 0:
        os.setgid(group); os.setuid(1000)
        told = {
            "plain": call(8000),
            "provider": call(443, "API.OpenAI.com"),
            "other": call(443, "example.com"),
        }
        os.write(write, json.dumps(told).encode()); os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = json.load(pipe)
    os.wait()
    return found

before = calls(1000)
command = ["guard", "--port", "4000", "--group", str(GROUP)]
with mock.patch("socket.getaddrinfo", look_up):
    codes = [main([*command, "api.openai.com", "vllm.shop:8000"]) for _ in range(2)]
print(json.dumps({"codes": codes, "before": before, "app": calls(1000), "ours": calls(GROUP)}))
"""


@pytest.fixture
def network() -> Iterator[str]:
    """Give a network of its own, in which the provider's address is there."""
    if os.geteuid() != 0 or MISSING:
        pytest.skip(f"needs root, and {', '.join(MISSING) or 'nothing else'}")
    name = f"tw-guard-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        inside = ["ip", "-n", name]
        subprocess.run([*inside, "link", "set", "lo", "up"], check=True)
        address = [*inside, "addr", "add", f"{PROVIDER}/32", "dev", "lo"]
        subprocess.run(address, check=True)
        yield name
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["ip", "netns", "del", name], check=True)


def test_a_pods_network(network: str, tmp_path: Path) -> None:
    """
    Before, everybody reaches everything. Then an app's plain HTTP arrives at Envoy, its
    TLS to the provider is refused by name, other names are not, and ours may do all.
    Twice is once.
    """
    authority = pytest.importorskip("trustme").CA()
    pair = authority.issue_cert("api.openai.com")
    (tmp_path / "tls.crt").write_bytes(pair.cert_chain_pems[0].bytes())
    (tmp_path / "tls.key").write_bytes(pair.private_key_pem.bytes())
    scene = [sys.executable, "-c", _SCENE, PROVIDER, str(GROUP), str(tmp_path)]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        ["ip", "netns", "exec", network, *scene],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])

    everything = dict.fromkeys(("plain", "provider", "other"), "provider")
    assert found == {
        "codes": [0, 0],
        "before": everything,
        "app": {"plain": "envoy", "provider": "refused", "other": "provider"},
        "ours": everything,
    }


def test_no_host(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no name is the caller's mistake."""
    assert main([*COMMAND, "https://api.openai.com"]) == 2
    assert "HOST: must be names such as" in capsys.readouterr().err


def test_no_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that nobody knows is waited for, then it is an error: not a hole."""

    def nobody(*_: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)

    assert main([*COMMAND, "vllm.shop:8000"]) == 1
    assert "vllm.shop:8000: has no address" in capsys.readouterr().err


def test_no_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it nothing is guarded, and it says what is missing."""
    monkeypatch.setattr(shutil, "which", lambda _: None)

    assert main([*COMMAND, "localhost"]) == 1
    assert "iptables-restore: is not there" in capsys.readouterr().err


def test_a_program_that_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says is told."""
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/false")

    assert main([*COMMAND, "localhost"]) == 1
    assert "iptables-restore: failed" in capsys.readouterr().err
