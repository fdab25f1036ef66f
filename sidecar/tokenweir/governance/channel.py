"""
Where envelopes are published, and read back: keys of one Cluster slot in the ledger.

Nothing here verifies signatures: whoever reads does (`tokenweir.governance.envelope`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any, Self

from tokenweir.core.errors import TokenweirError
from tokenweir.governance.envelope import (
    MAX_STORED_BYTES,
    MAX_VERSION,
    NAMES,
    Envelope,
    EnvelopeError,
    decoded,
    encoded,
)
from tokenweir.ledger import keys
from tokenweir.ledger.formats import require_told
from tokenweir.ledger.link import PATIENT_SECONDS, Link
from tokenweir.ledger.scripts import script_of
from tokenweir.telemetry.fanout import Fanout
from tokenweir.telemetry.hooks import LedgerEvents

# Enough to go back to, and little in Redis.
KEPT_VERSIONS = 100

_PUBLISH = script_of(
    "publish",
    f"local FORMAT = {keys.FORMAT}\n"
    + resources.files("tokenweir.governance")
    .joinpath("lua", "publish.lua")
    .read_text(),
    is_rooted=True,
)
# What calls are called in metrics and logs.
_VERB = "governance"


class PublishedMeanwhileError(TokenweirError):
    """
    Another version was published first: nothing was changed.

    Attributes:
        version: The newest one now.
    """

    def __init__(self, version: int) -> None:
        super().__init__(f"version {version} was published meanwhile")
        self.version = version


class Channel:
    """
    Documents by name and version.

    All methods raise `tokenweir.core.errors.LedgerUnavailableError` if there was no
    answer in time, and NewerFormatError if a newer version has published in another form:
    nothing was changed.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, url: str, events: LedgerEvents | None = None
    ) -> AsyncIterator[Self]:
        """Connect to the ledger at *url*, for as long as the context lasts."""
        link = Link(url, events or Fanout(()), deadline_seconds=PATIENT_SECONDS)
        try:
            yield cls(link)
        finally:
            await link.close()

    async def versions(self) -> dict[str, int]:
        """
        Return the newest version of each document; 0: there is none.

        One MGET, of the same size whatever the documents are.
        """
        heads = [keys.published(name) for name in NAMES]
        command = ("MGET", *heads, keys.form(keys.GOVERNANCE))
        ((*found, form),) = await self._link.read([command], verb=_VERB)
        require_told([form])
        return {name: _number(v) for name, v in zip(NAMES, found, strict=True)}

    async def read(self, name: str, version: int) -> Envelope | None:
        """
        Return a version, unverified; None: it is not there.

        Raises: EnvelopeError, if what is there is no envelope, or another's.
        """
        data = await self._known(_reading(name, version))
        return _envelope(data, name, version) if data else None

    async def publish(self, envelope: Envelope, *, after: int) -> None:
        """
        Make *envelope* the newest, if *after* is the newest until then; 0: none.

        Raises:
            PublishedMeanwhileError: It is not: nothing was changed.
            EnvelopeError: It has no valid shape, or is no newer than *after*.
        """
        if envelope.version <= after:
            raise EnvelopeError(f"version: must be above {after}")
        data = encoded(envelope)
        done, newest = await self._link.run(
            _PUBLISH,
            keys.GOVERNANCE,
            [envelope.name, after, envelope.version, data.decode(), KEPT_VERSIONS],
        )
        if not done:
            raise PublishedMeanwhileError(_number(newest))

    async def history(self, name: str, count: int) -> list[Envelope]:
        """
        Return up to *count* versions, unverified, the newest first.

        What is no envelope is left out.
        """
        index = ("ZRANGE", keys.published_versions(name), -count, -1)
        members = await self._known(index)
        found: list[Envelope] = []
        for version in sorted(map(_number, members), reverse=True):
            # One at a time: each may be as large as a policy.
            with contextlib.suppress(EnvelopeError):
                envelope = await self.read(name, version)
                found += [envelope] if envelope else []
        return found

    async def _known(self, command: tuple[str | int, ...]) -> Any:
        """Return what *command* answers, if it is of a form that we know."""
        form = ("GET", keys.form(keys.GOVERNANCE))
        told, answer = await self._link.read([form, command], verb=_VERB)
        require_told([told])
        return answer


def _reading(name: str, version: int) -> tuple[str | int, ...]:
    # One byte more than there may be shows that it is too much.
    return ("GETRANGE", keys.published(name, version), 0, MAX_STORED_BYTES)


def _envelope(data: bytes, name: str, version: int) -> Envelope:
    envelope = decoded(data)
    if (envelope.name, envelope.version) != (name, version):
        raise EnvelopeError("is another version, or another document")
    return envelope


def _number(text: Any) -> int:
    """Return the version that *text* is; what is none counts as none."""
    try:
        version = int(text or b"0")
    except ValueError:
        return 0
    return version if 0 <= version <= MAX_VERSION else 0
