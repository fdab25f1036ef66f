"""What was in force last is on disk, and can be trusted."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.governance.documents import PUBLIC, STRANGER, draft, signed
from tokenweir.governance.envelope import KEYS, POLICY, EnvelopeError, encoded, sign
from tokenweir.governance.last_good import LastGood


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is not there yet."""
    return tmp_path / "pod" / "good"


@pytest.fixture
def kept(folder: Path) -> LastGood:
    """What is kept in *folder*."""
    return LastGood(folder, [PUBLIC])


def test_it_is_kept_for_its_owner(kept: LastGood, folder: Path) -> None:
    """Each document has a file that nobody else can read, and no scraps are left."""
    assert kept.read(POLICY) is None
    kept.write(signed(1))
    kept.write(signed(2))
    kept.write(signed(1, "{}", name=KEYS))

    assert kept.read(POLICY) == signed(2)
    assert kept.read(KEYS) == signed(1, "{}", name=KEYS)
    assert {path.name for path in folder.iterdir()} == {"keys.json", "policy.json"}
    assert stat.S_IMODE((folder / "policy.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_newer_one_stays(kept: LastGood) -> None:
    """A worker that is behind takes nothing from the others."""
    kept.write(signed(3))
    kept.write(signed(2))

    assert kept.read(POLICY) == signed(3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        encoded(signed(1))[:-9],
        encoded(sign(draft(9), STRANGER)),
        encoded(draft(9)),
        encoded(signed(9, name=KEYS)),
    ],
    ids=["empty", "damaged", "cut", "forged", "unsigned", "other"],
)
def test_what_can_not_be_trusted(kept: LastGood, folder: Path, content: bytes) -> None:
    """Damaged and forged files are told by their path, and are written anew."""
    folder.mkdir(parents=True)
    (folder / "policy.json").write_bytes(content)

    with pytest.raises(EnvelopeError, match=r"policy\.json"):
        kept.read(POLICY)
    kept.write(signed(1))
    assert kept.read(POLICY) == signed(1)


def test_what_is_no_file(kept: LastGood, folder: Path) -> None:
    """Where a file can't be read or written, that is told, and nothing is left behind."""
    (folder / "policy.json").mkdir(parents=True)

    with pytest.raises(EnvelopeError, match="is a folder, not a file"):
        kept.read(POLICY)
    with pytest.raises(OSError, match="directory"):
        kept.write(signed(1))
    assert [path.name for path in folder.iterdir()] == ["policy.json"]
