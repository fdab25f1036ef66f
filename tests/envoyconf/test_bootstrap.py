"""The whole configuration: what is in it, and that Envoy would start with it."""

import ssl
from pathlib import Path

import pytest
import yaml

from tests.envoyconf.gateway import policy_of, provider
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Secret
from tokenweir.envoyconf.bootstrap import render, to_yaml
from tokenweir.envoyconf.settings import EnvoySettings
from tokenweir.envoyconf.validate import problem_of

PROVIDERS = (
    provider("plain", 8000),
    provider("named", 80, "vllm.internal", path_prefix="/prefix"),
    provider("six", 8000, "::1"),
    provider("tls", 443, "api.openai.com", scheme="https"),
    provider("tls-address", 8443, "10.0.0.9", scheme="https"),
)


def test_envoy_accepts_every_kind_of_provider() -> None:
    """Names and addresses, with and without TLS."""
    authorities = ssl.get_default_verify_paths().cafile or ""
    if not Path(authorities).is_file():
        pytest.skip("this machine has no bundle of authorities")
    settings = EnvoySettings(
        ca_file=authorities,
        admin_socket="/run/a",
        processor_sockets=("/run/1", "/run/2"),
    )

    assert problem_of(render(policy_of(*PROVIDERS), settings)) is None


def test_envoy_accepts_no_providers() -> None:
    """A policy without providers refuses everything."""
    assert problem_of(render(policy_of(), EnvoySettings())) is None


def test_no_secrets() -> None:
    """A provider's credential is not in it."""
    up = provider("up", 1, credential=Secret("sk-CANARY"))

    assert "CANARY" not in to_yaml(render(policy_of(up), EnvoySettings()))


def test_name_of_the_processor_is_taken() -> None:
    """No provider can take the processor's place."""
    policy = policy_of(provider("tokenweir-processor", 1))

    with pytest.raises(PolicyError, match=r"providers\.tokenweir-processor"):
        render(policy, EnvoySettings())


def test_admin() -> None:
    """The admin interface is a unix socket, or is not there."""
    with_admin = render(policy_of(), EnvoySettings(admin_socket="/run/admin"))

    assert with_admin["admin"] == {"address": {"pipe": {"path": "/run/admin"}}}
    assert "admin" not in render(policy_of(), EnvoySettings())


def test_yaml() -> None:
    """YAML says the same, scripts are blocks, and nothing is an anchor."""
    bootstrap = render(policy_of(*PROVIDERS), EnvoySettings())

    text = to_yaml(bootstrap)

    assert yaml.safe_load(text) == bootstrap
    assert "inline_string: |\n" in text
    assert "&id" not in text
