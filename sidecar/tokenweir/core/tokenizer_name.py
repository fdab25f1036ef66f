"""What a policy's `tokenizer` may be: the name of a family, or a file."""

from __future__ import annotations

# The largest that are published have 35 MB, and take two seconds to load.
MAX_FILE_BYTES = 64 * 1024 * 1024
# What reads such files: an extra of the same name.
PACKAGE = "tokenizers"

_FILE = "file:"


def file_name(path: str) -> str:
    """Return what the tokenizer in the file *path* is called."""
    return _FILE + path


def path_in(name: str | None) -> str | None:
    """Return the path if *name* is that of a file, else None."""
    if name is None or not name.startswith(_FILE):
        return None
    return name.removeprefix(_FILE)
