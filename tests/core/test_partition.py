from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.partition import all_tags, shared_tag_of, tag_of


def test_tag_of_a_tenant_never_changes() -> None:
    """
    A tenant's levels lie where they have always been: SHA-256 modulo 256.
    """
    assert tag_of("acme") == "tw:087"
    assert tag_of("") == "tw:085"


def test_tag_of_a_shared_quota_depends_on_quota_and_partition() -> None:
    """
    A limit that tenants share has a tag of its own kind, by quota and partition.
    """
    assert shared_tag_of("openai.tpm", "provider=openai") == "tw:s255"
    assert shared_tag_of("openai.tpm", "provider=azure") == "tw:s203"
    assert shared_tag_of("openai.rpm", "provider=openai") == "tw:s079"


@given(st.text(st.characters(exclude_categories=())))
def test_every_tag_is_among_all_tags(name: str) -> None:
    """
    Whatever a tenant is called, a sweep of all tags visits its tag.
    """
    tags = all_tags()

    assert tag_of(name) in tags
    assert shared_tag_of(name, name) in tags


def test_all_tags_are_different() -> None:
    """
    There are 256 tags of tenants and 256 of shared quotas.
    """
    assert len(set(all_tags())) == 512
