"""Files that nobody else may open, from their first moment on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Have what is created meanwhile, sockets too, belong to this user alone."""
    old = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(old)
