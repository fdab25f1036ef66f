"""
Where issued keys are changed: read, changed, signed and published, all or nothing.

Two people may do that at once. Each publishes only behind the version that they have
read; who comes second reads anew and makes their change to what the first has made. So
nothing is lost, and what can't be done any more is said.

What is read is verified before anything is made of it. Whoever could write to Redis
could otherwise have a document of theirs signed by the next change.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from tokenweir.core.errors import LedgerUnavailableError, TokenweirError
from tokenweir.governance.channel import Channel, PublishedMeanwhileError
from tokenweir.governance.envelope import (
    KEYS,
    POLICY,
    BadSignatureError,
    Envelope,
    EnvelopeError,
    sign,
    verify,
)

# Each time somebody else was quicker.
MAX_TRIES = 20
# Who lost waits a random part of it.
_PAUSE_SECONDS = 0.1


class KeyDeskError(TokenweirError):
    """Issued keys can't be read or changed. The text says why, and what to do."""


class Published(Protocol):
    """Where documents are: the part of a `Channel` that is needed here."""

    async def versions(self) -> dict[str, int]:
        """Return the newest version of each document; 0: there is none."""

    async def read(self, name: str, version: int) -> Envelope | None:
        """Return a version, unverified; None: it is not there."""

    async def publish(self, envelope: Envelope, *, after: int) -> None:
        """Make *envelope* the newest, if *after* is the newest until then."""


@dataclass(frozen=True, slots=True)
class Signer:
    """
    Who changes keys.

    Attributes:
        private_key: That what is published is signed with.
        public_keys: Those of others who may, besides their own.
        by: Their name, as others read it.
    """

    private_key: Ed25519PrivateKey
    public_keys: Sequence[Ed25519PublicKey] = ()
    by: str = ""

    @property
    def known(self) -> tuple[Ed25519PublicKey, ...]:
        """Whose signatures count."""
        return (self.private_key.public_key(), *self.public_keys)


async def newest(
    channel: Published, public_keys: Sequence[Ed25519PublicKey]
) -> Envelope | None:
    """
    Return the keys that are published; None: none ever were.

    They are verified, unless there are no *public_keys*.

    Raises: KeyDeskError; LedgerUnavailableError.
    """
    for _ in range(MAX_TRIES):
        version = (await channel.versions())[KEYS]
        if not version:
            return None
        envelope = await _read(channel, version)
        if envelope is not None:
            if public_keys:
                _verify(envelope, public_keys)
            return envelope
        # A hundred newer ones since may have taken its place.
        await _pause()
    raise KeyDeskError(
        "The keys that are published as the newest are not there. Whoever runs the "
        "ledger has to restore them."
    )


async def change(
    channel: Published,
    signer: Signer,
    make: Callable[[str | None], str],
    now_ms: int,
    comment: str,
) -> Envelope:
    """
    Publish what *make* returns for the keys that there are (None: none), and return it.

    *make* is called again if others have published meanwhile.

    Raises:
        KeyDeskError: It can't be done; nothing was changed.
        LedgerUnavailableError: There was no answer.

    Also whatever *make* raises.
    """
    for _ in range(MAX_TRIES):
        before = await newest(channel, signer.known)
        content = make(before.content if before else None)
        version = before.version if before else 0
        draft = Envelope(KEYS, version + 1, content, now_ms, signer.by, comment)
        envelope = await _published(channel, signer, draft, version)
        if envelope is not None:
            return envelope
        await _pause()
    raise KeyDeskError(
        "Others publish keys all the time, so this change was not made. Try again."
    )


async def restore(
    channel: Published, signer: Signer, envelope: Envelope, now_ms: int
) -> Envelope:
    """
    Publish the keys in *envelope* above whatever is published, and return them.

    For a ledger to which somebody has written who should not: what they left has a
    higher version than the last good keys, so those have to be signed anew.

    Raises:
        KeyDeskError: It can't be done, or there is no need; nothing was changed.
        LedgerUnavailableError: There was no answer.
    """
    if envelope.name != KEYS:
        raise KeyDeskError("These are no keys: `policy publish` is for policies.")
    _verify(envelope, signer.known)
    version = (await channel.versions())[KEYS]
    if await _is_good(channel, signer, version):
        raise KeyDeskError(
            f"Version {version} is published and well signed, so there is no need for "
            f"version {envelope.version}."
        )
    comment = f"restore version {envelope.version}"
    # Sidecars that follow what is restored take nothing that is older.
    above = max(version, envelope.version) + 1
    draft = Envelope(KEYS, above, envelope.content, now_ms, signer.by, comment)
    made = await _published(channel, signer, draft, version)
    if made is None:
        raise KeyDeskError(
            "Somebody has published keys meanwhile, so nothing was restored. Are those "
            "good (`tokenweir keys list`)? If not, try again."
        )
    return made


async def restore_at(
    url: str, signer: Signer, envelope: Envelope, now_ms: int
) -> Envelope:
    """Restore the keys in the ledger at *url*. See `restore`."""
    async with Channel.open(url) as channel:
        return await restore(channel, signer, envelope, now_ms)


async def change_at(
    url: str,
    signer: Signer,
    make: Callable[[str | None], str],
    now_ms: int,
    comment: str,
) -> Envelope:
    """Change the keys in the ledger at *url*. See `change`."""
    async with Channel.open(url) as channel:
        return await change(channel, signer, make, now_ms, comment)


async def newest_at(
    url: str, public_keys: Sequence[Ed25519PublicKey]
) -> Envelope | None:
    """Return the keys in the ledger at *url*. See `newest`."""
    async with Channel.open(url) as channel:
        return await newest(channel, public_keys)


async def published_policy_at(url: str) -> str | None:
    """
    Return the policy in the ledger at *url*, unverified; None: there is none to read.

    Raises: LedgerUnavailableError.
    """
    async with Channel.open(url) as channel:
        version = (await channel.versions())[POLICY]
        with contextlib.suppress(EnvelopeError):
            envelope = await channel.read(POLICY, version) if version else None
            return envelope.content if envelope else None
    return None


async def _published(
    channel: Published, signer: Signer, draft: Envelope, after: int
) -> Envelope | None:
    """Return *draft* as it was signed and published; None: others were quicker."""
    try:
        envelope = sign(draft, signer.private_key)
        await channel.publish(envelope, after=after)
    except EnvelopeError as error:
        raise KeyDeskError(f"The keys can't be published: {error}.") from None
    except (LedgerUnavailableError, PublishedMeanwhileError) as error:
        # A call whose answer was lost may have been done all the same, or have been
        # made twice: a secret must not be lost for that.
        if await channel.read(KEYS, envelope.version) == envelope:
            return envelope
        if isinstance(error, LedgerUnavailableError):
            raise
        return None
    return envelope


async def _is_good(channel: Published, signer: Signer, version: int) -> bool:
    """Tell if sidecars that know *signer* and theirs would take that *version*."""
    with contextlib.suppress(EnvelopeError):
        envelope = await channel.read(KEYS, version) if version else None
        if envelope is not None:
            verify(envelope, signer.known)
            return True
    return False


async def _read(channel: Published, version: int) -> Envelope | None:
    try:
        return await channel.read(KEYS, version)
    except EnvelopeError as error:
        raise KeyDeskError(
            f"The keys in the ledger (version {version}) can't be read: {error}. "
            "Somebody has written to it who should not: `tokenweir keys restore` brings "
            "the last good ones back, from a sidecar's disk."
        ) from None


def _verify(envelope: Envelope, public_keys: Sequence[Ed25519PublicKey]) -> None:
    try:
        verify(envelope, public_keys)
    except BadSignatureError:
        raise KeyDeskError(
            f"The keys (version {envelope.version}) are signed by nobody who is known "
            "here. If others publish too, name their public keys with "
            "--governance-key; else somebody has written them who should not, and "
            "`tokenweir keys restore` brings the last good ones back, from a sidecar's "
            "disk."
        ) from None


async def _pause() -> None:
    await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - no secret
