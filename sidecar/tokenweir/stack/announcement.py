"""
What a running stack tells other commands about itself, in its private folder.

`tokenweir tour` reads it. There is no secret in it: a ledger that the user has named
may have a password in its URL, so only the embedded one is told.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenweir.stack import folder as places
from tokenweir.stack.blueprint import Blueprint
from tokenweir.stack.folder import StateFolder
from tokenweir.stack.settings import HOST


@dataclass(frozen=True, slots=True)
class Announcement:
    """
    Attributes:
        url: Where apps connect to.
        admin: Of the first worker: where its health is told.
        policy: The policy file.
        ledger: URL of the embedded ledger; ``""``: the user has named another.
        mock_port: Of the mock provider; None: there is none.
    """

    url: str
    admin: str
    policy: str
    ledger: str
    mock_port: int | None

    def write(self, folder: StateFolder) -> None:
        """Tell it to whoever may enter *folder*, all at once. Raises: OSError."""
        new = folder.announcement.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.replace(folder.announcement)


def announcement_of(blueprint: Blueprint) -> Announcement:
    """Return what a stack of *blueprint* tells."""
    settings = blueprint.settings
    return Announcement(
        url=f"http://{HOST}:{settings.port}",
        admin=f"http://{HOST}:{settings.admin_port}",
        policy=str(blueprint.policy),
        ledger="" if settings.ledger_url else blueprint.ledger_url,
        mock_port=blueprint.mock_port,
    )


def announced() -> list[Announcement]:
    """Return what the stacks tell that this user runs on this machine."""
    return sorted(_found(), key=lambda told: told.url)


def _found() -> Iterator[Announcement]:
    for parent in {Path(tempfile.gettempdir()), Path(places.SHORT_PARENT)}:
        for path in parent.glob(f"{places.PREFIX}*/{places.ANNOUNCEMENT}"):
            if _is_ours(path) and _lives(path.parent):
                told = _read(path)
                if told is not None:
                    yield told


def _is_ours(path: Path) -> bool:
    """Tell if this user wrote it: whoever else can could have our keys sent to them."""
    try:
        return path.stat().st_uid == os.getuid()
    except OSError:  # a stack that ends meanwhile takes it along
        return False


def _lives(folder: Path) -> bool:
    """Tell if its Envoy listens: a stack that was killed leaves its folder behind."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(folder / places.ENVOY_ADMIN)) == 0


def _read(path: Path) -> Announcement | None:
    """Return what *path* says; None, if it is of another version."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Announcement(**content)
    except (OSError, ValueError, TypeError):
        return None
