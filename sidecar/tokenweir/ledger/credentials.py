"""
A password that is in a file, and may be another one tomorrow.

It is read for each new connection, so that a rotation needs no restart: have the server
take both passwords (`ACL SETUSER … >new`), change the file, and take the old one away
(`<old`). Connections that there are stay.
"""

from __future__ import annotations

from pathlib import Path

from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError

# A file of that size holds no password.
MAX_BYTES = 4_096


class PasswordFileError(RedisConnectionError):
    """The file can't be read, or there is nothing in it."""


class PasswordFile(CredentialProvider):
    """
    What redis-py asks for user and password.

    Args:
        path: A file with the password, and nothing else but the end of its line.
        user: Whose it is; None: the server's default user.
    """

    def __init__(self, path: str, user: str | None = None) -> None:
        self._path = Path(path)
        self._user = user

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return the password, or user and password. Raises: PasswordFileError."""
        try:
            with self._path.open("rb") as file:
                password = file.read(MAX_BYTES).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError):
            password = ""
        if not password:
            raise PasswordFileError("the password's file can't be read, or is empty")
        return (password,) if self._user is None else (self._user, password)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """See `get_credentials`."""
        return self.get_credentials()
