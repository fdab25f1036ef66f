"""
The webhook's certificate, which others change under it: cert-manager, Helm, a CronJob.

Files are compared by content, as a Secret's volume is swapped by links. A pair that does
not fit together, or is no pair, changes nothing: new connections get the last good one,
and it is tried again. Connections that are open keep theirs.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

from tokenweir.core.errors import TokenweirError

MAX_BYTES = 1024 * 1024


class CertificateError(TokenweirError):
    """There is no usable pair. The text says why, and has no part of a key."""


@dataclass(frozen=True, slots=True)
class Validity:
    """From when until when a certificate is good, in Unix seconds."""

    begins_at: float
    ends_at: float

    def holds(self, now: float) -> bool:
        """Tell if *now* is in between."""
        return self.begins_at <= now < self.ends_at


class Certificate:
    """
    The pair in the files *cert* (with what is between it and its authority) and *key*.

    Raises: CertificateError, if there is none to begin with.

    Attributes:
        context: For a server; it has the pair that was loaded last.
        validity: Of that one.
    """

    def __init__(self, cert: Path, key: Path) -> None:
        self._cert, self._key = cert, key
        self._loaded = ""
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.validity = Validity(0.0, 0.0)
        self.refresh()

    def refresh(self) -> bool:
        """
        Load the pair if it is another one; tell if it was.

        Raises: CertificateError, and then the one before stays.
        """
        try:
            cert, key = self._read(self._cert), self._read(self._key)
            digest = hashlib.sha256(cert + b"\0" + key).hexdigest()
            if digest == self._loaded:
                return False
            validity = _validity(cert)
            # A context that refuses a key has the certificate already: so another first.
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                context.load_cert_chain(self._cert, self._key, password=_no_password)
        except ssl.SSLError as error:
            why = (error.reason or "can't be used").lower().replace("_", " ")
            raise CertificateError(f"{self._cert}, {self._key}: {why}") from None
        except OSError as error:
            why = (error.strerror or "can't be read").lower()
            raise CertificateError(f"{error.filename or self._cert}: {why}") from None
        except ValueError:
            raise CertificateError(f"{self._cert}: is no certificate in PEM") from None
        self._loaded, self.validity = digest, validity
        return True

    @staticmethod
    def _read(path: Path) -> bytes:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise CertificateError(f"{path}: is too large for what it should be")
        return content


def _validity(pem: bytes) -> Validity:
    """Return that of the first certificate in *pem*. Raises: ValueError."""
    found = x509.load_pem_x509_certificate(pem)
    seconds: Callable[[datetime], float] = datetime.timestamp
    return Validity(
        seconds(found.not_valid_before_utc), seconds(found.not_valid_after_utc)
    )


def _no_password() -> str:
    """Refuse a key with a password: OpenSSL would ask for it on a terminal."""
    raise ValueError
