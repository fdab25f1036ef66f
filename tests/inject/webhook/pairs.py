"""Certificates for tests: an authority, and pairs of files that it vouches for."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

HOST = "127.0.0.1"


@dataclass
class Pair:
    """
    Two files, as a Secret's volume has them.

    Attributes:
        folder: Where they are.
        authority: Vouches for what is in them.
    """

    folder: Path
    authority: trustme.CA = field(default_factory=trustme.CA)

    @property
    def cert(self) -> Path:
        """The certificate's file."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        """The private key's."""
        return self.folder / "tls.key"

    def issue(self, *, days: float = 1.0) -> None:
        """Put another pair there, which is good for *days* more, or was until then."""
        ends_at = datetime.now(UTC) + timedelta(days=days)
        made = self.authority.issue_cert(
            HOST, not_before=ends_at - timedelta(days=30), not_after=ends_at
        )
        self.cert.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        self.key.write_bytes(made.private_key_pem.bytes())

    def client(self) -> ssl.SSLContext:
        """Return what a client uses who trusts the authority, and nobody else."""
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context
