from dataclasses import replace

import pytest

from tests.telemetry.exchanges import policy_of
from tokenweir.core.policy import ApiKey
from tokenweir.telemetry.labels import MAX_QUOTAS, MAX_TENANTS, Labels

LABELS = Labels(policy_of("acme.tpm"))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-2024-11-20", "gpt-4o*"),
        ("no-such-model", "other"),
        ("x" * 100_000, "other"),
        ("gpt-4o\x00", "gpt-4o*"),
        ("", "none"),
    ],
)
def test_model(name: str, label: str) -> None:
    """S06: a model's label is a name of the policy, whatever a client sends."""
    assert LABELS.model(name) == label


def test_the_rest() -> None:
    """Tenants, providers and quotas too are those of the policy."""
    assert LABELS.tenant("acme") == "acme"
    assert LABELS.tenant("victim") == "other"
    assert LABELS.tenant("") == "none"
    assert LABELS.provider("openai") == "openai"
    assert LABELS.provider("x") == "other"
    assert LABELS.quota("acme.tpm") == "acme.tpm"
    assert LABELS.quota("acme.rpm") == "other"


def test_without_policy() -> None:
    """Before a policy is known everything is other."""
    labels = Labels()

    assert labels.model("gpt-4o-mini") == "other"
    assert labels.tenant("acme") == "other"
    assert labels.provider("openai") == "other"
    assert labels.quotas == frozenset()


def test_single_tenant() -> None:
    """A processor for one tenant shows that tenant's quotas only."""
    policy = policy_of("acme.tpm", tenants=("acme", "beta"))
    beta = replace(policy.tenants["beta"], quotas=())
    policy = replace(
        policy, tenants={**policy.tenants, "beta": beta}, single_tenant="beta"
    )

    assert Labels(policy).quotas == frozenset()
    assert Labels(policy).tenant("acme") == "other"


def test_quotas_of_keys() -> None:
    """A key's own quotas are told by name, but not where no key counts."""
    policy = policy_of("acme.tpm")
    own = replace(policy.tenants["acme"].quotas[0], id="acme/ci.tpm")
    key = ApiKey("ci", "acme", quotas=(own,))
    policy = replace(policy, keys={"a" * 64: key})

    assert Labels(policy).quotas == {"acme.tpm", "acme/ci.tpm"}
    assert Labels(replace(policy, single_tenant="acme")).quotas == {"acme.tpm"}


def test_bounds() -> None:
    """A policy for a whole fleet does not make the page grow without end."""
    names = tuple(f"t{n}" for n in range(MAX_TENANTS + 5))
    labels = Labels(policy_of(*(f"q{n}" for n in range(3)), tenants=names))
    many = Labels(policy_of(*(f"q{n}" for n in range(MAX_QUOTAS + 5))))

    assert sum(labels.tenant(name) == "other" for name in names) == 5
    assert labels.quotas == {"q0", "q1", "q2"}
    assert len(many.quotas) == MAX_QUOTAS
