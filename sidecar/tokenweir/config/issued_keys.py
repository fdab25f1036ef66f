"""
Keys that were issued for a fleet, beside those of the policy file.

They are a document of their own, which `tokenweir keys` writes and publishes:

    {"version": 1, "keys": [
      {"id": "ci", "tenant": "acme", "sha256": "…", "created_at": "…"}, …]}

A key that is rotated has two entries of one id: the new secret's, whose `rotated_from`
is the hash of the old one, and the old one's, which now expires. Both have the same
limits, since those go by the id. A key that is revoked stays, so that whoever still
sends it is told so, and that no file brings it back.

Where the policy file and this document disagree, the file's key counts, and the other
is ignored and told: what a file says can be seen by everybody who reads it. With one
exception: what was revoked is revoked.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import msgspec
from pydantic import Field, ValidationError

from tokenweir.config.budget_fit import budget_unit, misfits
from tokenweir.config.compile import compile_key
from tokenweir.config.compile_quota import key_scope, quota_id
from tokenweir.config.entry import Entry
from tokenweir.config.problem import Path, Problem, listed
from tokenweir.config.scalar import Moment, Name, Sha256
from tokenweir.config.schema import KeyEntry, QuotaEntry
from tokenweir.config.schema_problem import problems_of
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import ApiKey, KeyEnd, OnLedgerFailure, Policy

# As much as an envelope takes, so some fifteen thousand keys.
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024


class IssuedKeyEntry(KeyEntry):
    """One secret of a key."""

    tenant: Name = Field(description="Who pays.")
    created_at: Moment = Field(description="When the key was made.")
    rotated_from: Sha256 | None = Field(
        default=None, description="SHA-256 of the secret that this one replaces."
    )
    rotated_at: Moment | None = Field(
        default=None, description="When it took that one's place."
    )
    revoked_at: Moment | None = Field(
        default=None, description="Since when the key is refused for good."
    )

    @functools.cached_property
    def compiled(self) -> Mapping[OnLedgerFailure, ApiKey]:
        """
        The key, by what holds for its quotas if they do not say.

        Kept, as it is made in a thread, and used between two exchanges.
        """
        return {mode: compile_key(self, self.tenant, mode) for mode in OnLedgerFailure}


class IssuedKeysFile(Entry):
    """The whole document."""

    version: Literal[1] = Field(description="Of this format: 1.")
    keys: list[IssuedKeyEntry] = Field(description="All secrets that were issued.")


def parse_issued_keys(document: str) -> tuple[IssuedKeyEntry, ...]:
    """
    Return the entries of a *document*, JSON.

    Raises:
        PolicyError: With every problem, one a line. None repeats a value.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise PolicyError([f"keys: has more than {MAX_DOCUMENT_BYTES} bytes"])
    try:
        content = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise PolicyError(["keys: is no JSON document"]) from None
    try:
        entries = IssuedKeysFile.model_validate(content).keys
    except ValidationError as error:
        problems = listed(problems_of(error, IssuedKeysFile))
        raise PolicyError(problems) from None
    found = listed([*_succession(entries), *_quotas(entries)])
    if found:
        raise PolicyError(found)
    for entry in entries:
        _ = entry.compiled
    return tuple(entries)


def with_issued_keys(policy: Policy, document: str) -> Policy:
    """
    Return *policy*, which is from its file, with the keys of *document* too.

    Raises: PolicyError. See `merged` for what is ignored.
    """
    return merged(policy, parse_issued_keys(document))[0]


def merged(
    policy: Policy, entries: Sequence[IssuedKeyEntry]
) -> tuple[Policy, tuple[str, ...]]:
    """
    Return *policy*, which is from its file, with *entries* too.

    Also what was ignored and why, a line each.
    """
    own_ids = {key.id for key in policy.keys.values()}
    replaced = replaced_digests(entries)
    keys = dict(policy.keys)
    ignored: list[str] = []
    for entry in entries:
        digest = entry.sha256.lower()
        why = _why_ignored(entry, policy, own_ids)
        if why is None:
            keys[digest] = _compiled(entry, policy, is_replaced=digest in replaced)
        else:
            ignored.append(f"issued key {entry.id}: {why}, so it is ignored")
    return replace(policy, keys=MappingProxyType(keys)), tuple(dict.fromkeys(ignored))


def replaced_digests(entries: Sequence[IssuedKeyEntry]) -> set[str]:
    """Return the hashes of the secrets among *entries* that others took the place of."""
    return {entry.rotated_from.lower() for entry in entries if entry.rotated_from}


def _why_ignored(
    entry: IssuedKeyEntry, policy: Policy, own_ids: set[str]
) -> str | None:
    if entry.tenant not in policy.tenants:
        return f"the policy has no tenant {entry.tenant}"
    if entry.revoked_at is not None:
        return None
    if entry.sha256.lower() in policy.keys:
        return "the policy file has a key of the same hash"
    if entry.id in own_ids:
        return "the policy file has a key of this id"
    return None


def _compiled(entry: IssuedKeyEntry, policy: Policy, *, is_replaced: bool) -> ApiKey:
    key = entry.compiled[policy.tenants[entry.tenant].on_ledger_failure]
    if entry.revoked_at is not None:
        return replace(key, ends_at_ms=entry.revoked_at, end=KeyEnd.REVOKED)
    return replace(key, end=KeyEnd.ROTATED) if is_replaced else key


# === what is wrong ================================================================


def _succession(entries: Sequence[IssuedKeyEntry]) -> Iterator[Problem]:
    """Yield what is wrong with hashes, ids, and who took whose place."""
    replaced = replaced_digests(entries)
    by_digest: dict[str, IssuedKeyEntry] = {}
    current: set[str] = set()
    taken: set[str] = set()
    for index, entry in enumerate(entries):
        path: Path = ("keys", index)
        digest = entry.sha256.lower()
        if digest in by_digest:
            yield Problem((*path, "sha256"), "is that of another entry too")
        by_digest.setdefault(digest, entry)
        if digest not in replaced:
            if entry.id in current:
                yield Problem((*path, "id"), "is the id of another key too")
            current.add(entry.id)
        elif entry.expires_at is None and entry.revoked_at is None:
            text = "is missing: another secret has taken this one's place"
            yield Problem((*path, "expires_at"), text)
        before = (entry.rotated_from or "").lower()
        if before and before in taken:
            text = "is that of another entry too: a secret is replaced once"
            yield Problem((*path, "rotated_from"), text)
        taken.add(before)
    yield from _predecessors(entries, by_digest, current)


def _predecessors(
    entries: Sequence[IssuedKeyEntry],
    by_digest: Mapping[str, IssuedKeyEntry],
    current: Collection[str],
) -> Iterator[Problem]:
    for index, entry in enumerate(entries):
        if entry.rotated_from and entry.id not in current:
            text = "goes round in a circle: no secret of this key is the last one"
            yield Problem(("keys", index, "rotated_from"), text)
        before = by_digest.get((entry.rotated_from or "").lower())
        if before is None:
            # What ended long ago may be gone.
            continue
        if (before.id, before.tenant) != (entry.id, entry.tenant):
            text = "is of another key or tenant: a key keeps its id and tenant"
            yield Problem(("keys", index, "rotated_from"), text)


def _quotas(entries: Sequence[IssuedKeyEntry]) -> Iterator[Problem]:
    for index, entry in enumerate(entries):
        scope = key_scope(entry.tenant, entry.id)
        seen: set[str] = set()
        for number, quota in enumerate(entry.quotas):
            path: Path = ("keys", index, "quotas", number)
            identity = quota_id(quota, scope)
            if identity in seen:
                text = "must be set and different: another quota of this key is alike"
                yield Problem((*path, "name"), text)
            seen.add(identity)
            for problem in (*misfits(quota), *_endless(quota)):
                yield replace(problem, path=(*path, *problem.path))


def _endless(quota: QuotaEntry) -> Iterator[Problem]:
    """Tell of a budget that does not end what is spent: what else may is not known."""
    entry, unit = quota.on_exceeded, budget_unit(quota)
    if entry is None or unit is None:
        return
    yields = entry.downgrade_to or entry.throttle_percent
    if yields and (entry.hard_limit_usd or entry.hard_limit_tokens) is None:
        yield Problem(
            ("on_exceeded", f"hard_limit_{unit}"),
            "is missing: a key's own budget that does not block needs one",
        )
