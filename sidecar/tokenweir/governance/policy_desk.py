"""
Where policies are published, read back and rolled back.

Nobody's change is lost: a publisher who has not seen the newest version is told, and
nothing is changed. What is rolled back to is verified first: whoever could write to
Redis could otherwise have a policy of theirs signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from tokenweir.core.errors import TokenweirError
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


class PolicyDeskError(TokenweirError):
    """It can't be done. The text says why, and what to do; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One version, as history shows it.

    Attributes:
        envelope: What was published.
        verified: Whether it is signed by somebody known; None: nobody is.
    """

    envelope: Envelope
    verified: bool | None


@dataclass(frozen=True, slots=True)
class Author:
    """
    Who publishes.

    Attributes:
        private_key: That versions are signed with.
        by: Their name, as others read it.
        now_ms: When.
        public_keys: Those of others who may publish, besides their own.
    """

    private_key: Ed25519PrivateKey
    by: str
    now_ms: int
    public_keys: Sequence[Ed25519PublicKey] = ()

    @property
    def known(self) -> tuple[Ed25519PublicKey, ...]:
        """All whose signatures count."""
        return (self.private_key.public_key(), *self.public_keys)


class PolicyDesk:
    """
    Policies in the ledger.

    Args:
        channel: To it.
        public_keys: Whose signatures count; empty: nothing is verified.

    All methods raise `tokenweir.core.errors.LedgerUnavailableError`, and
    `PolicyDeskError` with what is wrong.
    """

    def __init__(
        self, channel: Channel, public_keys: Sequence[Ed25519PublicKey] = ()
    ) -> None:
        self._channel = channel
        self._public_keys = public_keys

    async def newest_version(self, name: str = POLICY) -> int:
        """Return the newest version of document *name*; 0: none is published."""
        return (await self._channel.versions())[name]

    async def version(self, version: int | None = None) -> Envelope:
        """Return a *version*, verified; None: the newest."""
        wanted = version or await self.newest_version()
        if not wanted:
            raise PolicyDeskError(
                "No policy is published yet: `tokenweir policy publish` does."
            )
        try:
            envelope = await self._channel.read(POLICY, wanted)
            if envelope is not None and self._public_keys:
                verify(envelope, self._public_keys)
        except EnvelopeError as error:
            raise PolicyDeskError(f"Version {wanted} {error}.") from None
        if envelope is None:
            raise PolicyDeskError(
                f"There is no version {wanted}: `tokenweir policy history` lists those "
                "that are kept."
            )
        return envelope

    async def history(self, count: int) -> list[Entry]:
        """Return up to *count* versions, the newest first, whoever signed them."""
        envelopes = await self._channel.history(POLICY, count)
        return [Entry(envelope, self._is_verified(envelope)) for envelope in envelopes]

    async def publish(
        self, author: Author, content: str, comment: str, *, above: int = 0
    ) -> Envelope:
        """
        Publish *content* as the next version, or the one after *above*; return it.

        Also if it is what is in force already: a new signature may be what is wanted.
        """
        newest = await self.newest_version()
        version = max(newest, above) + 1
        draft = Envelope(POLICY, version, content, author.now_ms, author.by, comment)
        try:
            envelope = sign(draft, author.private_key)
            await self._channel.publish(envelope, after=newest)
        except EnvelopeError as error:
            raise PolicyDeskError(f"It can't be published: {error}.") from None
        except PublishedMeanwhileError as error:
            raise PolicyDeskError(
                f"Nothing was published: version {error.version} was, meanwhile. "
                "`tokenweir policy diff FILE` shows what it is, then try again."
            ) from None
        return envelope

    async def restore(self, envelope: Envelope) -> None:
        """Publish *envelope* as it is, after the ledger has lost it."""
        newest = await self.newest_version(envelope.name)
        try:
            verify(envelope, self._public_keys)
            await self._channel.publish(envelope, after=newest)
        except BadSignatureError as error:
            raise PolicyDeskError(f"It {error}.") from None
        except EnvelopeError:
            forged = (
                " If nobody known has signed it, `tokenweir keys restore` puts these "
                "above it."
            )
            raise PolicyDeskError(
                f"Version {newest} is published, so there is no need for version "
                f"{envelope.version}.{forged if envelope.name == KEYS else ''}"
            ) from None
        except PublishedMeanwhileError as error:
            raise PolicyDeskError(f"Version {error.version} is published.") from None

    def _is_verified(self, envelope: Envelope) -> bool | None:
        if not self._public_keys:
            return None
        try:
            verify(envelope, self._public_keys)
        except EnvelopeError:
            return False
        return True
