from hypothesis import given
from hypothesis import strategies as st

from tokenweir.core.partition import (
    USER_DIGITS,
    all_tags,
    as_told,
    shared_tag_of,
    tag_of,
    tenant_tags,
    user_code,
)


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
    assert tag_of(name) in tenant_tags()
    assert shared_tag_of(name, name) not in tenant_tags()
    assert shared_tag_of(name, name) in tags


def test_a_user_is_told_by_a_hash() -> None:
    """
    It is the same wherever it stands, as docs/observability.md says, and no name.
    """
    assert user_code("acme", "ann@example.org") == "bab2ad031c40c31e"
    assert user_code("acme", "") == ""


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_users_of_tenants_are_told_apart(user: str) -> None:
    """
    Whatever it is called, a user is another one at another tenant.
    """
    code = user_code("acme", user)

    assert len(code) == USER_DIGITS
    assert code not in (user_code("globex", user), user_code("acme", f"{user}x"))


def test_a_user_is_told_their_own_name() -> None:
    """
    The caller sees what they sent, and nobody else's name.
    """
    partition = f"tenant=acme,user={user_code('acme', 'ann')},model=gpt-4o"

    assert as_told(partition, "acme", "ann") == "tenant=acme,user=ann,model=gpt-4o"
    assert as_told(partition, "acme", "bob") == partition
    assert as_told(partition, "acme", "") == partition


def test_all_tags_are_different() -> None:
    """
    There are 256 tags of tenants and 256 of shared quotas.
    """
    assert len(set(all_tags())) == 512
