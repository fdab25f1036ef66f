"""
The last documents that were in force, on disk: what a start without Redis begins with.

They are kept as they were published, signature included, so that nobody who can write
here can make a processor obey. Workers of a pod may share a folder.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.governance.envelope import (
    MAX_STORED_BYTES,
    Envelope,
    EnvelopeError,
    decoded,
    encoded,
    verify,
)


class LastGood:
    """
    One file a document in *folder*, which is made when it is needed.

    What was not signed by the holder of one of *public_keys* is not read.
    """

    def __init__(
        self, folder: pathlib.Path, public_keys: Sequence[Ed25519PublicKey]
    ) -> None:
        self._folder = folder
        self._public_keys = public_keys

    def read(self, name: str) -> Envelope | None:
        """
        Return what was kept of document *name*, verified; None: nothing was.

        Raises: EnvelopeError, if it is damaged or forged. The text names the file.
        """
        path = self.path(name)
        if not os.path.lexists(path):
            return None
        try:
            envelope = decoded(Files().read(path, MAX_STORED_BYTES))
            verify(envelope, self._public_keys)
        except (UnreadableFileError, EnvelopeError) as error:
            raise EnvelopeError(f"{path} {error}") from None
        if envelope.name != name:
            raise EnvelopeError(f"{path} holds another document")
        return envelope

    def write(self, envelope: Envelope) -> None:
        """
        Keep *envelope*, unless a newer one is kept already. Raises: OSError.

        A file is replaced as a whole, also if the power fails.
        """
        with contextlib.suppress(EnvelopeError):
            kept = self.read(envelope.name)
            if kept is not None and kept.version >= envelope.version:
                return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # For its owner only, from the beginning.
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".")
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 - it is open already
                file.write(encoded(envelope))
                file.flush()
                os.fsync(file.fileno())
            pathlib.Path(name).replace(self.path(envelope.name))
        except BaseException:
            pathlib.Path(name).unlink(missing_ok=True)
            raise

    def path(self, name: str) -> pathlib.Path:
        """Return where document *name* is kept."""
        return self._folder / f"{name}.json"
