"""What a running stack tells other commands."""

from __future__ import annotations

import json
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tokenweir.stack.announcement import Announcement, announced, announcement_of
from tokenweir.stack.blueprint import Blueprint
from tokenweir.stack.folder import StateFolder
from tokenweir.stack.programs import Programs
from tokenweir.stack.settings import StackSettings

TOLD = Announcement(
    url="http://127.0.0.1:4100",
    admin="http://127.0.0.1:9100",
    policy="/p.yaml",
    ledger="unix:///ledger.sock",
    mock_port=4321,
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which stacks keep their files; its name fits into a socket's."""
    with tempfile.TemporaryDirectory(prefix="tw-", dir="/tmp") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        monkeypatch.setattr("tokenweir.stack.folder.SHORT_PARENT", folder)
        yield Path(folder)


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Stacks that run as long as the test does."""
    with ExitStack() as stack:
        yield stack


def start(running: ExitStack, told: Announcement, *, lives: bool = True) -> StateFolder:
    """Return the folder of a stack that has *told* what it is."""
    folder = running.enter_context(StateFolder())
    told.write(folder)
    if lives:
        envoy = running.enter_context(socket.socket(socket.AF_UNIX))
        envoy.bind(str(folder.envoy_admin))
        envoy.listen()
    return folder


def test_a_stack_that_runs_is_found(machine: Path, running: ExitStack) -> None:
    """What it has told is what is read, of several in the order of their URLs."""
    second = replace(TOLD, url="http://127.0.0.1:4200", mock_port=None)
    start(running, second)
    folder = start(running, TOLD)

    assert announced() == [TOLD, second]
    assert folder.path.parent == machine
    assert not folder.announcement.with_suffix(".new").exists()


@pytest.mark.usefixtures("machine")
def test_a_stack_that_was_killed_is_not_found(running: ExitStack) -> None:
    """Its folder is still there, and nobody listens in it."""
    start(running, TOLD, lives=False)

    assert announced() == []


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("content", ["", "[]", "{}", '{"url": 1, "more": 2}', "\ud800"])
def test_another_version_s_words_are_passed_over(
    content: str, running: ExitStack
) -> None:
    """What can't be read is no reason to fail."""
    folder = start(running, TOLD)
    folder.announcement.write_bytes(content.encode(errors="surrogatepass"))

    assert announced() == []


@pytest.mark.usefixtures("machine")
def test_another_user_s_words_are_passed_over(
    running: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write into /tmp can't have our keys sent to them."""
    start(running, TOLD)
    monkeypatch.setattr("os.getuid", lambda: 1_234_567)

    assert announced() == []


@pytest.mark.usefixtures("machine")
def test_a_stack_that_ends_meanwhile_is_passed_over(
    running: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may go between two looks."""
    folder = start(running, TOLD)

    def gone(parent: Path, pattern: str) -> list[Path]:
        return [folder.announcement, parent / "tokenweir-gone" / "up.json"]

    monkeypatch.setattr(Path, "glob", gone)

    assert announced() == [TOLD]


@pytest.mark.parametrize(
    ("settings", "mock_port", "ledger"),
    [
        (StackSettings(port=4100, admin_port=9100), 4321, "unix://{}/ledger.sock"),
        (StackSettings(ledger_url="redis://:CANARY@host"), None, ""),
    ],
)
def test_what_is_told(
    settings: StackSettings, mock_port: int | None, ledger: str
) -> None:
    """Places only: a URL that may hold a password is not told, and nobody may read."""
    with StateFolder() as folder:
        programs = Programs(Path("/bin/envoy"))
        policy = folder.policy
        told = announcement_of(
            Blueprint(settings, programs, folder, policy, {}, mock_port)
        )
        told.write(folder)
        text = folder.announcement.read_text()
        mode = stat.S_IMODE(folder.path.stat().st_mode)

        assert told.ledger == ledger.format(folder.path)
        assert told.url == f"http://127.0.0.1:{settings.port}"
        assert told.admin == f"http://127.0.0.1:{settings.admin_port}"
        assert (told.policy, told.mock_port) == (str(policy), mock_port)
        assert json.loads(text)["url"] == told.url
        assert "CANARY" not in text
        assert mode == 0o700
