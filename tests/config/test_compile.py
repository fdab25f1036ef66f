"""Entries become the snapshot that decisions are made from."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config.policies import KEY_A
from tokenweir.config.compile import compile_policy, compile_webhook
from tokenweir.config.schema import PolicyFile
from tokenweir.core.cap import Cap
from tokenweir.core.policy import (
    ApiKey,
    Axis,
    KeyEnd,
    Model,
    OnLedgerFailure,
    Policy,
    Provider,
    Quota,
    Secret,
    Tenant,
    TimeoutClass,
)
from tokenweir.core.prompt_part import Audit
from tokenweir.core.webhook import Webhook

SECRET = Secret("sk-1")
OPEN = OnLedgerFailure.OPEN


def compiled(**fields: Any) -> Policy:
    """Return the snapshot of a file with *fields*."""
    content = {
        "version": 1,
        "providers": {"a": {"base_url": "https://a", "dialect": "openai"}},
        "models": {"m": {"provider": "a"}},
        "tenants": {"acme": {}},
        **fields,
    }
    return compile_policy(PolicyFile.model_validate(content), "d1", {"a": SECRET})


def test_a_webhook() -> None:
    """Who is told of budgets; nobody, where the secret was not looked up."""
    entry = {"url": "https://b", "secret": "env:B", "timeout": 2, "ca_file": "/ca"}
    content = {
        "version": 1,
        "providers": {},
        "models": {},
        "tenants": {},
        "notifications": {"webhook": entry},
    }
    file = PolicyFile.model_validate(content)

    assert compile_webhook(file, SECRET) == Webhook("https://b", SECRET, 2_000, "/ca")
    assert compile_webhook(file, None) is None
    del content["notifications"]
    assert compile_webhook(PolicyFile.model_validate(content), SECRET) is None


def test_what_a_file_leaves_out() -> None:
    """Everything has a default but providers, models and tenants."""
    assert compiled() == Policy(
        digest="d1",
        providers={"a": Provider("a", "openai", "https", "a", 443, credential=SECRET)},
        models={"m": Model("m", "a")},
        model_families=(),
        tenants={"acme": Tenant("acme")},
        keys={},
        default_providers={"openai": "a"},
    )


def test_providers() -> None:
    """Each field of the file has its place; a credential is the provider's own."""
    provider = {
        "base_url": "http://h:1/p/v1",
        "dialect": "anthropic",
        "ca_file": "/c",
        "cert_file": "/d",
        "key_file": "/e",
        "unknown_paths": "opaque",
        "version_path": "/v4",
        "ask_for_usage": False,
        "http2": True,
    }

    assert compiled(providers={"b": provider}).providers["b"] == Provider(
        name="b",
        dialect="anthropic",
        scheme="http",
        host="h",
        port=1,
        path_prefix="/p",
        credential=None,
        ca_file="/c",
        cert_file="/d",
        key_file="/e",
        opaque_paths=("*",),
        version_path="/v4",
        ask_for_usage=False,
        http2=True,
    )


@pytest.mark.parametrize(
    ("dialect", "url", "prefix"),
    [
        ("azure", "https://h/openai", ""),
        ("azure", "https://h/openai/v1/", ""),
        ("azure", "https://h", ""),
        ("azure", "https://h/gateway", "/gateway"),
        ("openai", "https://h/openai/v1", "/openai"),
        ("gemini", "https://h/v1beta", ""),
    ],
)
def test_roots_of_azure(dialect: str, url: str, prefix: str) -> None:
    """Apps' paths to Azure begin with `/openai`, so a copied URL does not double it."""
    provider = {"base_url": url, "dialect": dialect}

    assert compiled(providers={"b": provider}).providers["b"].path_prefix == prefix


def test_models_and_families() -> None:
    """A family is found by its beginning, the longest first, an exact name before."""
    names = ["*", "gpt-4*", "gpt-*", "gpt-4.1", "ab*", "xy*"]
    policy = compiled(models={name: {"provider": "a"} for name in names})

    assert list(policy.models) == ["gpt-4.1"]
    assert [model.name for model in policy.model_families] == [
        "gpt-4*",
        "gpt-*",
        "ab*",
        "xy*",
        "*",
    ]
    for name, found in {
        "gpt-4.1": "gpt-4.1",
        "gpt-4o": "gpt-4*",
        "gpt-5": "gpt-*",
        "x": "*",
    }.items():
        model = policy.model(name)
        assert model is not None
        assert model.name == found


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [
        ({}, 4096),
        ({"max_output_tokens": 100}, 100),
        ({"max_output_tokens": 8000}, 4096),
        ({"max_output_tokens": 8000, "default_output_tokens": 7000}, 7000),
    ],
)
def test_what_is_reserved_without_a_cap(fields: dict[str, Any], reserved: int) -> None:
    """Never more than the model can generate."""
    model = compiled(models={"m": {"provider": "a", **fields}}).models["m"]

    assert model.default_output_tokens == reserved


def test_a_model_with_everything() -> None:
    """Each field of the file has its place."""
    entry = {
        "provider": "a",
        "upstream_model": "u",
        "max_output_tokens": 9,
        "default_output_tokens": 8,
        "tokenizer": "t",
        "timeout_class": "slow",
    }

    assert compiled(models={"m": entry}).models["m"] == Model(
        "m", "a", "u", 9, 8, "t", "slow", maximum_is_known=True
    )


@pytest.mark.parametrize(
    ("of_policy", "of_model", "calibrated"),
    [
        ({}, {}, True),
        ({"calibration": False}, {}, False),
        ({"calibration": False}, {"calibration": True}, True),
        ({}, {"calibration": False}, False),
        ({"calibration": True}, {"calibration": None}, True),
    ],
)
def test_whether_estimates_are_corrected(
    of_policy: dict[str, Any], of_model: dict[str, Any], calibrated: bool
) -> None:
    """As the model says, else as the policy does; families of names too."""
    models = {name: {"provider": "a", **of_model} for name in ("m", "f-*")}
    policy = compiled(models=models, **of_policy)

    assert policy.models["m"].calibrated is calibrated
    assert policy.model_families[0].calibrated is calibrated


@pytest.mark.parametrize(
    ("fields", "known"), [({}, False), ({"max_output_tokens": 16_384}, True)]
)
def test_a_default_is_no_knowledge(fields: dict[str, Any], known: bool) -> None:
    """A maximum that the policy names is the model's, the default may be wrong."""
    model = compiled(models={"m": {"provider": "a", **fields}}).models["m"]

    assert model.max_output_tokens == 16_384
    assert model.maximum_is_known is known


def test_tenants_and_their_keys() -> None:
    """A key leads to its tenant, by a hash in lower case."""
    key = {"id": "k", "sha256": KEY_A.upper(), "models": ["m"]}
    policy = compiled(tenants={"acme": {"keys": [key], "models": ["m", "x*"]}})

    assert policy.keys == {KEY_A: ApiKey("k", "acme", ("m",))}
    assert policy.tenants["acme"].models == ("m", "x*")
    assert KEY_A not in repr(policy)


def test_a_key_with_everything() -> None:
    """Its scopes and limits are those of the key, its default the tenant's."""
    key = {
        "id": "k",
        "sha256": KEY_A,
        "routes": ["messages"],
        "expires_at": "1970-01-01T01:00:01+01:00",
        "quotas": [{"concurrency": 2}],
    }
    policy = compiled(tenants={"acme": {"keys": [key], "on_ledger_failure": "open"}})

    quota = Quota(
        id="acme/k.concurrency",
        axis=Axis.CONCURRENCY,
        rate=0,
        capacity=2,
        partition=("tenant", "key"),
        on_ledger_failure=OnLedgerFailure.OPEN,
    )
    made = ApiKey("k", "acme", (), ("messages",), (quota,), 1_000, KeyEnd.EXPIRED)
    assert policy.keys == {KEY_A: made}


def test_every_tenant_has_the_shared_quotas() -> None:
    """After its own, in the file's order, and as strict as the tenant is."""
    policy = compiled(
        tenants={
            "acme": {"quotas": [{"concurrency": 1}], "on_ledger_failure": "open"},
            "other": {},
        },
        quotas=[
            {"tokens_per_minute": 5, "partition": ["provider"]},
            {"concurrency": 2, "partition": ["tenant"], "on_ledger_failure": "closed"},
        ],
    )
    quotas = {
        name: [(quota.id, quota.on_ledger_failure.value) for quota in tenant.quotas]
        for name, tenant in policy.tenants.items()
    }

    assert quotas == {
        "acme": [
            ("acme.concurrency", "open"),
            ("*.tokens_per_minute_by_provider", "open"),
            ("*.concurrency", "closed"),
        ],
        "other": [
            ("*.tokens_per_minute_by_provider", "closed"),
            ("*.concurrency", "closed"),
        ],
    }


def test_the_policys_word_is_the_tenants_default() -> None:
    """Quota, tenant, policy: the nearest one decides."""
    policy = compiled(
        on_ledger_failure="open",
        tenants={
            "a": {"quotas": [{"concurrency": 1}]},
            "b": {"on_ledger_failure": "closed"},
        },
    )

    assert policy.tenants["a"].on_ledger_failure is OPEN
    assert policy.tenants["a"].quotas[0].on_ledger_failure is OPEN
    assert policy.tenants["b"].on_ledger_failure is OnLedgerFailure.CLOSED


def test_default_providers() -> None:
    """The first of each dialect, unless the file says another."""
    providers = {
        name: {"base_url": "https://a", "dialect": dialect}
        for name, dialect in [("x", "openai"), ("y", "anthropic"), ("z", "openai")]
    }
    first = compiled(providers=providers)
    other = compiled(providers=providers, default_providers={"openai": "z"})

    assert first.default_providers == {"openai": "x", "anthropic": "y"}
    assert other.default_providers == {"openai": "z", "anthropic": "y"}


def test_timeouts() -> None:
    """`default` is always there, and can be set."""
    classes = compiled(timeouts={"slow": {"total": "1h"}}).timeout_classes
    changed = compiled(
        timeouts={"default": {"idle": "1s"}}, route_timeouts={"other": "default"}
    )

    assert classes == {
        "default": TimeoutClass("default", 0, 300_000),
        "slow": TimeoutClass("slow", 3_600_000, 300_000),
    }
    assert changed.timeout_classes == {"default": TimeoutClass("default", 0, 1000)}
    assert changed.route_timeouts == {"other": "default"}


def test_the_rest() -> None:
    """Each field of the file has its place."""
    policy = compiled(single_tenant="acme", retries=0, body_limit="1MiB")

    assert policy.single_tenant == "acme"
    assert policy.retries == 0
    assert policy.body_limit_bytes == 1_048_576


def test_a_snapshot_is_frozen() -> None:
    """Nothing can be put into it while exchanges read it."""
    policy = compiled()

    for mapping in (policy.providers, policy.tenants, policy.timeout_classes):
        with pytest.raises(TypeError):
            mapping["x"] = None  # type: ignore[index]


def test_caps() -> None:
    """Each keeps its place: advice tells it by that."""
    names = {"models": ["m"], "routes": ["messages"], "tenants": ["acme"]}
    policy = compiled(
        caps=[{"output_tokens": 3, "if_unset": 2, **names}, {"if_unset": 9}]
    )

    assert policy.caps == (Cap(3, 2, ("m",), ("messages",), ("acme",)), Cap(None, 9))


def test_the_audit_of_prompts() -> None:
    """Hashes of all by default; each field has its place."""
    fields = {
        "keep_prompt_text": True,
        "prompts_of": ["acme"],
        "keep_prompt_text_of": ["acme"],
    }

    assert compiled().audit == Audit()
    assert compiled(audit={"prompts": False}).audit == Audit(prompts=False)
    assert compiled(audit=fields).audit == Audit(
        prompts_of=("acme",), keep_prompt_text=True, keep_prompt_text_of=("acme",)
    )
