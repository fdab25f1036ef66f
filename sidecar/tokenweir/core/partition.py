"""
Under which tag a limit's keys live.

A tag is a Cluster hash tag: all keys of one ledger call share it, so the call is
one atomic script on one node. There are few tags, so that there are few usage
streams and few places where expired holds can wait; and they are made of
hashes, so that no brace or blank of a tenant's name ever gets into a key's tag.

WARNING: a tenant's tag never changes, or its levels and holds are lost.
"""

from __future__ import annotations

import hashlib

TAGS_OF_A_KIND = 256


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


def all_tags() -> tuple[str, ...]:
    """Return every tag that there can be: what a sweep has to visit."""
    shards = range(TAGS_OF_A_KIND)
    return tuple(f"tw:{shard:03d}" for shard in shards) + tuple(
        f"tw:s{shard:03d}" for shard in shards
    )


def _shard(name: str) -> int:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest, "big") % TAGS_OF_A_KIND
