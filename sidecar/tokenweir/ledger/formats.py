"""
Leaving alone what a newer version has written, where no script looks after that itself.

Scripts look at a tag's format in the call that touches it. What only reads asks for it
before it reads: what is read was of a known form a moment ago, and forms do not change
under those who are too old for them before they have been told for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redis.exceptions import NoPermissionError

from tokenweir.core.errors import NewerFormatError
from tokenweir.ledger import keys
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.link import Link


def asking(roots: Iterable[str]) -> list[Command]:
    """Return the commands that ask for the format under each of *roots*."""
    return [("GET", keys.form(root)) for root in roots]


def require_told(answers: Sequence[object]) -> None:
    """
    Return if all *answers* to `asking` are of formats that this version knows.

    Who may not look (a user with rights of an older recipe) knows of none.

    Raises: NewerFormatError.
    """
    known = {None, str(keys.FORMAT).encode()}
    for answer in answers:
        if not isinstance(answer, NoPermissionError) and answer not in known:
            raise NewerFormatError("written by a newer Tokenweir: upgrade this one")


async def require_known(link: Link, tags: Iterable[str]) -> None:
    """
    Return if what is under *tags* is of a format that this version knows.

    Raises:
        NewerFormatError: It is not.
        LedgerUnavailableError: There was no answer.
    """
    require_told(await link.read(asking(map(keys.root, tags))))
