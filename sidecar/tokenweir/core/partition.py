"""
Whose a limit is, and under which tag its keys live.

An end user's id is what an app likes it to be, often a name or an address: personal
data. Whatever is kept has a hash in its place, see `user_code`.

A tag is a Cluster hash tag: all keys of one ledger call share it, so the call is
one atomic script on one node. There are few tags, so that there are few usage
streams and few places where expired holds can wait; and they are made of
hashes, so that no brace or blank of a tenant's name ever gets into a key's tag.

WARNING: a tenant's tag never changes, or its levels and holds are lost.
"""

from __future__ import annotations

import hashlib

TAGS_OF_A_KIND = 256

# 64 bits: two of a million users of one tenant share a limit with odds of 1 in 10^7.
USER_DIGITS = 16


def tag_of(tenant: str) -> str:
    """Return the tag of the *tenant*'s own limits, such as ``"tw:017"``."""
    return f"tw:{_shard(tenant):03d}"


def shared_tag_of(quota: str, partition: str) -> str:
    """
    Return the tag of a limit that tenants share, such as ``"tw:s017"``.

    Args:
        quota: The quota's id.
        partition: Whose, such as ``"provider=openai"``.
    """
    return f"tw:s{_shard(f'{quota}|{partition}'):03d}"


def queue_of(tenant: str) -> str:
    """Return what stands for the *tenant* where its callers come one after the other."""
    digest = hashlib.sha256(tenant.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:USER_DIGITS]


def tenant_tags() -> tuple[str, ...]:
    """Return every tag that `tag_of` can return."""
    return tuple(f"tw:{shard:03d}" for shard in range(TAGS_OF_A_KIND))


def all_tags() -> tuple[str, ...]:
    """Return every tag that there can be: what a sweep has to visit."""
    shared = tuple(f"tw:s{shard:03d}" for shard in range(TAGS_OF_A_KIND))
    return (*tenant_tags(), *shared)


def user_code(tenant: str, user: str) -> str:
    """
    Return what stands for an end *user* in keys, records and logs; ``""``: no user.

    It differs by tenant, so that one person can't be followed from one to the other.
    It hides an id from who reads along, not from who can guess it.
    """
    if not user:
        return ""
    text = f"{tenant}\0{user}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:USER_DIGITS]


def as_told(partition: str, tenant: str, user: str) -> str:
    """Return *partition* as its own *user* is told it: by the name that they gave."""
    code = user_code(tenant, user)
    return partition.replace(f"user={code}", f"user={user}") if code else partition


def _shard(name: str) -> int:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest, "big") % TAGS_OF_A_KIND
