"""Forms with files, as SDKs send them."""

from __future__ import annotations

BOUNDARY = b"9b8b041cd77e16c0"
CONTENT_TYPE = ("content-type", f"multipart/form-data; boundary={BOUNDARY.decode()}")


def form(*fields: tuple[str, str | bytes]) -> bytes:
    """Return the form of *fields*, by name; bytes are files."""
    parts = []
    for name, value in fields:
        head = f'Content-Disposition: form-data; name="{name}"'
        if isinstance(value, bytes):
            head += '; filename="a.wav"\r\nContent-Type: audio/wav'
        content = value if isinstance(value, bytes) else value.encode()
        parts.append(f"--{BOUNDARY.decode()}\r\n{head}\r\n\r\n".encode() + content)
    return b"\r\n".join([*parts, b"--" + BOUNDARY + b"--\r\n"])
