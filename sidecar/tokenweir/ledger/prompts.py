"""
What parts of prompts that repeat have cost, day by day: written and read back.

A day's sums lie beside the tag's others, see `keys`. There are at most `MAX_MEMBERS`
of each tenant, and `MAX_NEW_TEXTS` texts, so that no app can fill the ledger with
prompts of which each is new; what is beyond is summed as `OTHER`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from tokenweir.core.errors import LedgerRefusedError
from tokenweir.core.partition import tag_of, tenant_tags
from tokenweir.core.prompt_part import Kind, PromptCost
from tokenweir.core.record import SEPARATOR
from tokenweir.ledger import keys, scripts
from tokenweir.ledger.evaluation import Command
from tokenweir.ledger.formats import require_known
from tokenweir.ledger.link import Link

# Of a tenant and a day: a hundred kilobytes.
MAX_MEMBERS = 500
# Ditto, of texts of 2 kB that were not there yet.
MAX_NEW_TEXTS = 100
# Keys that are read in one piece.
BATCH = 128
# In place of a digest: parts that are not told apart; of a model: beyond the bound.
OTHER = "other"
# What fields begin with that count a tenant's members and texts: no name of a tenant.
_COUNTS = "#"


@dataclass(frozen=True, slots=True)
class PromptKey:
    """
    Whose part of a prompt it is.

    Attributes:
        tenant: Who pays.
        model: Which answered, as the policy calls it.
        kind: Which part.
        digest: See `tokenweir.core.prompt_part`, or `OTHER`.
    """

    tenant: str
    model: str
    kind: Kind
    digest: str

    @property
    def member(self) -> str:
        """Its name within a day."""
        names = (self.tenant, self.model, self.kind, self.digest)
        return SEPARATOR.join(name.replace(SEPARATOR, " ") for name in names)


@dataclass(frozen=True, slots=True)
class PromptSum:
    """A *key* with its *cost* on a day, and the *text* to be kept of it or ``""``."""

    key: PromptKey
    cost: PromptCost
    text: str = ""


class PromptLedger:
    """
    The ledger's sums of prompts.

    Args:
        link: The way to the server.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ping(self) -> None:
        """Ask for an answer. Raises: LedgerUnavailableError."""
        await self._link.ping()

    async def add(self, tenant: str, day: int, sums: Sequence[PromptSum]) -> None:
        """
        Add *sums*, all of *tenant*, to a *day* since 1970 (UTC). Not idempotent.

        Raises:
            LedgerUnavailableError: It may have been done all the same.
        """
        counts = (f"{_COUNTS}members {tenant}", f"{_COUNTS}texts {tenant}")
        bounds = (MAX_MEMBERS, MAX_NEW_TEXTS, keys.PROMPT_KEPT_MS)
        arguments: list[str | int] = [day, *counts, *bounds]
        for each in sums:
            key = each.key
            other = PromptKey(key.tenant, OTHER, key.kind, OTHER)
            arguments += (key.member, other.member, key.digest, each.text)
            arguments += astuple(each.cost)
        root = keys.root(tag_of(tenant))
        # What takes too long is lost, and nobody waits for it.
        await self._link.run(scripts.PROMPTS, root, arguments, patient=True)

    async def read(
        self, first_day: int, last_day: int, *, tenant: str | None = None
    ) -> dict[PromptKey, PromptCost]:
        """
        Return the sums of these days since 1970, both included.

        Args:
            first_day: Since 1970 (UTC).
            last_day: Included.
            tenant: Only of this one; None: of all.

        Raises:
            LedgerUnavailableError: There was no answer in time.
        """
        tags = tenant_tags() if tenant is None else (tag_of(tenant),)
        await require_known(self._link, tags)
        commands: list[Command] = [
            ("HGETALL", keys.prompts(tag, day))
            for tag in tags
            for day in range(first_day, last_day + 1)
        ]
        found: dict[PromptKey, PromptCost] = {}
        for members in await self._answers(commands):
            for key, cost in _told(members):
                if tenant in (None, key.tenant):
                    found[key] = found.get(key, PromptCost()) + cost
        return found

    async def texts(self, wanted: Iterable[PromptKey]) -> dict[str, str]:
        """Return the texts that were kept of *wanted*, by digest. Raises like `read`."""
        asked = [*wanted]
        commands: list[Command] = [
            ("GET", keys.prompt_text(tag_of(key.tenant), key.digest)) for key in asked
        ]
        return {
            key.digest: text.decode("utf-8", "replace")
            for key, text in zip(asked, await self._answers(commands), strict=True)
            if text is not None
        }

    async def _answers(self, commands: Sequence[Command]) -> list[Any]:
        """Read in pieces: there are thousands of keys, and each piece has its time."""
        found: list[Any] = []
        for first in range(0, len(commands), BATCH):
            found += await self._link.read(commands[first : first + BATCH])
        return found


def _told(members: Mapping[bytes, bytes]) -> Iterable[tuple[PromptKey, PromptCost]]:
    for member, text in members.items():
        if member.startswith(_COUNTS.encode()):
            continue
        try:
            tenant, model, kind, digest = member.decode().split(SEPARATOR)
            key = PromptKey(tenant, model, Kind(kind), digest)
            yield key, PromptCost(*map(int, text.split()))
        except (TypeError, ValueError) as error:
            raise LedgerRefusedError(
                "no sums of prompts, but something else"
            ) from error
