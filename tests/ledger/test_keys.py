from tokenweir.core.holding import TOMBSTONE_MS
from tokenweir.core.partition import all_tags
from tokenweir.ledger import keys


def test_every_key_begins_with_its_hash_tag() -> None:
    """
    Cluster hashes what is in the first braces: all keys of a tag go together.
    """
    assert [
        keys.root("tw:017"),
        keys.records("tw:017"),
        keys.holds("tw:017"),
        keys.hold("tw:017", "1-2-3"),
        keys.hours("tw:017"),
        keys.rollup("tw:017", 472_222),
    ] == [
        "{tw:017}",
        "{tw:017}:u",
        "{tw:017}:x",
        "{tw:017}:h:1-2-3",
        "{tw:017}:a",
        "{tw:017}:a:472222",
    ]


def test_the_sweepers_lease_is_no_key_of_a_tag() -> None:
    """
    Nothing that is done under a tag can touch the lease.
    """
    assert not any(keys.SWEEPER_LEASE.startswith(keys.root(tag)) for tag in all_tags())


def test_holds_are_kept_longer_than_anything_refers_to_them() -> None:
    """
    A hold that nobody reaps stays until its levels are full anyway.
    """
    assert keys.HOLD_KEPT_MS > TOMBSTONE_MS
    assert keys.EPOCH_KEPT_MS > keys.HOLD_KEPT_MS
    assert keys.ROLLUP_KEPT_MS >= 396 * keys.DAY_MS


def test_what_is_published_lies_in_one_slot_of_its_own() -> None:
    """
    No tag's calls, and nobody's rights on tags, reach what is published.
    """
    assert keys.published("policy") == "{twg}:policy"
    assert keys.published("policy", 7) == "{twg}:policy:7"
    assert keys.published_versions("policy") == "{twg}:policy:versions"
    assert not any(tag.startswith("twg") for tag in all_tags())
