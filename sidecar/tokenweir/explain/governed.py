"""
What governs: a policy file, or what is published in a ledger, with the issued keys.

It is looked up once, by the same code as a sidecar's, and verified. Nothing is kept on
disk, and nothing that a sidecar has kept there is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenweir.config.issued_keys import IssuedKeyEntry
from tokenweir.core.errors import TokenweirError
from tokenweir.core.policy import ApiKey, Policy
from tokenweir.explain.question import (
    Question,
    UnknownKeyIdError,
    with_key_id,
    with_unknown_key,
)
from tokenweir.governance.source import PolicySource, SourceSettings
from tokenweir.ledger.link import Link
from tokenweir.telemetry.fanout import Fanout


class UngovernedError(TokenweirError):
    """No policy is in force. The text says why."""


class UntoldError(TokenweirError):
    """The ledger does not tell what is published. The text says why."""


@dataclass(frozen=True, slots=True)
class Governed:
    """
    What governs.

    Attributes:
        policy: That is in force, with the keys that were issued.
        described: Where it comes from, as a sidecar's ``/policy`` shows it.
        refused: What is published and can't be used, a line each.
        entries: The keys that were issued, those that do not count too.
        issued: Those that count, as they are in *policy*.
        ignored: Why others do not, a line each.
    """

    policy: Policy
    described: Mapping[str, object]
    refused: tuple[str, ...] = ()
    entries: tuple[IssuedKeyEntry, ...] = ()
    issued: tuple[ApiKey, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def follows_keys(self) -> bool:
        """Whether issued keys were looked for."""
        return "ledger" in self.described

    def is_issued(self, key: ApiKey) -> bool:
        """Tell if *key*, out of the policy, was issued."""
        return any(each is key for each in self.issued)

    def why_ignored(self, *, key_id: str = "", digest: str = "") -> str:
        """Return why an issued key does not count, by id or by hash; ``""``: it does."""
        ids = {e.id for e in self.entries if digest and e.sha256.lower() == digest}
        names = tuple(f"issued key {name}: " for name in {*ids, key_id} if name)
        return next((line for line in self.ignored if line.startswith(names)), "")


def by_file(policy: Policy) -> Governed:
    """Return what governs if nothing that is published counts."""
    return Governed(policy, {"source": "file", "digest": policy.digest})


async def governed(
    settings: SourceSettings, env: Mapping[str, str], link: Link, policy: Policy | None
) -> Governed:
    """
    Return what governs by what is published where *link* leads.

    Args:
        settings: Of a sidecar; nothing is kept if it says so.
        env: The environment that ``env:NAME`` means in a published policy.
        link: To the ledger.
        policy: The file's; None: the policy is published.

    Raises: UntoldError, UngovernedError.
    """
    heard = _Heard()
    source = PolicySource(settings, env, link, lambda _: None, heard)
    await source.look(policy)
    if heard.faults:
        raise UntoldError(f"something of ours broke: {', '.join(heard.faults)}")
    if source.silence is not None:
        raise UntoldError(source.silence)
    in_force = source.in_force
    if in_force.policy is None or in_force.base is None:
        raise UngovernedError(source.awaited())
    own, keys = in_force.base.keys, in_force.keys
    issued = [k for name, k in in_force.policy.keys.items() if own.get(name) is not k]
    return Governed(
        in_force.policy,
        source.described(),
        source.refused,
        tuple(keys.entries) if keys else (),
        tuple(issued),
        in_force.ignored,
    )


def by_key_id(question: Question, who: Governed, key_id: str) -> Question:
    """
    Return *question* as asked by the key *key_id*, or as one that sidecars ignore.

    Raises: UnknownKeyIdError.
    """
    try:
        return with_key_id(question, key_id)
    except UnknownKeyIdError:
        if not who.why_ignored(key_id=key_id):
            raise
        return with_unknown_key(question)


class _Heard(Fanout):
    """Notes what breaks, by its type."""

    def __init__(self) -> None:
        super().__init__(())
        self.faults: list[str] = []

    def fault(self, where: str, error: BaseException) -> None:
        """Note it."""
        self.faults.append(f"{where}: {type(error).__name__}")
