"""Files that Envoy follows are whole, whenever they are read."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tokenweir.envoyconf.xds_folder import XdsFolder

WRITER = """
import sys
from pathlib import Path
from tokenweir.envoyconf.xds_folder import XdsFolder
folder = XdsFolder(Path(sys.argv[1]))
number = 0
while True:
    with folder.locked():
        folder.put("a.json", b'"' + str(number % 10).encode() * 200_000 + b'"')
        number += 1
        print(flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> XdsFolder:
    """Return a folder that is not there yet."""
    return XdsFolder(tmp_path / "xds")


def test_put(folder: XdsFolder) -> None:
    """A file is there for its owner only, and is not touched if it stays the same."""
    with folder.locked():
        first = folder.put("a.json", b"{}")
        before = (folder.path / "a.json").stat()
        second = folder.put("a.json", b"{}")
        after = (folder.path / "a.json").stat()
        third = folder.put("a.json", b'{"a": 1}')

    assert (first, second, third) == (True, False, True)
    assert (before.st_ino, before.st_mode & 0o777) == (after.st_ino, 0o600)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.read_json("a.json") == {"a": 1}


def test_what_is_not_there(folder: XdsFolder) -> None:
    """What is not there, or is nothing of ours, counts as empty; removing is fine."""
    with folder.locked():
        folder.put("b.json", b"[]")
        folder.put("c.json", b'{"trunc')
        folder.remove("d.json")

    assert folder.read("a.json") is None
    assert [folder.read_json(f"{name}.json") for name in "abcd"] == [{}] * 4
    assert folder.names("?.json") == {"b.json", "c.json"}


def test_a_full_disk(folder: XdsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be written leaves the file as it was, and nothing beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with folder.locked():
        folder.put("a.json", b"{}")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            folder.put("a.json", b"[]")

    assert folder.read("a.json") == b"{}"
    assert folder.names("*") == {"a.json", ".lock"}


def test_a_writer_that_is_killed(folder: XdsFolder) -> None:
    """Killed at any moment, it leaves whole files behind, and the lock free."""
    lengths = set()
    for _ in range(5):
        command = [sys.executable, "-c", WRITER, str(folder.path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(5):
                writer.stdout.readline()
                lengths.add(len(json.loads(folder.read("a.json") or b"")))
            writer.send_signal(signal.SIGKILL)
        lengths.add(len(json.loads(folder.read("a.json") or b"")))
    with folder.locked():
        left = folder.names(".new-*")

    assert lengths == {200_000}
    assert left == set()


def test_writers_take_turns(folder: XdsFolder) -> None:
    """A second one waits for the first, whatever process or thread it is in."""
    order = []
    waits = threading.Event()

    def second() -> None:
        waits.set()
        with folder.locked():
            order.append("second")

    with folder.locked():
        thread = threading.Thread(target=second)
        thread.start()
        waits.wait()
        descriptor = os.open(folder.path / ".lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]
