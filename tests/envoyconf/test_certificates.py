"""Whom Envoy trusts, and by what it says who it is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from betterproto2 import Casing
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
)

from tests.envoyconf.certificates import Authority
from tests.envoyconf.gateway import policy_of, provider
from tokenweir.core.policy import Provider
from tokenweir.envoyconf.certificates import (
    SYSTEM_AUTHORITIES,
    file_of,
    lacks_authorities,
    problems_of,
    secrets_of,
    tls_context,
)
from tokenweir.envoyconf.settings import EnvoySettings

PLAIN = provider("plain", 1)
SYSTEM = provider("system", 443, "a.example", scheme="https")
OWN = replace(
    SYSTEM, name="own", ca_file="/ca.pem", cert_file="/cert.pem", key_file="/key.pem"
)
STATIC = EnvoySettings(ca_file="/system.pem")
LIVE = replace(STATIC, xds_dir="/xds")


def context_of(each: Provider, settings: EnvoySettings) -> dict[str, Any]:
    """Return the TLS of a provider as Envoy reads it."""
    found = tls_context(each, settings, CertificateValidationContext())
    return dict(found.to_dict(casing=Casing.SNAKE))


def test_from_the_start() -> None:
    """An Envoy that follows nothing is told the files."""
    pair = {
        "certificate_chain": {"filename": "/cert.pem"},
        "private_key": {"filename": "/key.pem"},
    }

    assert context_of(SYSTEM, STATIC) == {
        "validation_context": {"trusted_ca": {"filename": "/system.pem"}}
    }
    assert context_of(OWN, STATIC) == {
        "tls_certificates": [pair],
        "validation_context": {"trusted_ca": {"filename": "/ca.pem"}},
    }


def test_secrets_that_are_followed() -> None:
    """One that follows files is told which; the private key is in none of them."""
    context = context_of(OWN, LIVE)
    [own] = context["tls_certificate_sds_secret_configs"]
    trusted = context["combined_validation_context"]
    trusted = trusted["validation_context_sds_secret_config"]

    for secret in (own, trusted):
        path = secret["sds_config"]["path_config_source"]["path"]
        assert path == f"/xds/secret-{secret['name']}.json"
        assert secret["name"].startswith(OWN.cluster)


def test_what_is_in_secrets(tmp_path: Path) -> None:
    """Authorities of a policy are in their secret; the rest says where it is."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text("the authorities")
    own = replace(OWN, ca_file=str(ca_file))
    secrets = [
        each.to_dict(casing=Casing.SNAKE)
        for each in secrets_of(policy_of(PLAIN, SYSTEM, own), LIVE)
    ]
    trusted = [each.get("validation_context", {}).get("trusted_ca") for each in secrets]

    assert [each["name"] for each in secrets] == [
        SYSTEM_AUTHORITIES,
        f"{own.cluster}-authorities",
        f"{own.cluster}-own",
    ]
    assert trusted[:2] == [
        {"filename": "/system.pem"},
        {"inline_string": "the authorities"},
    ]
    assert secrets[2]["tls_certificate"]["private_key"] == {"filename": "/key.pem"}
    assert list(secrets_of(policy_of(PLAIN), LIVE)) == []
    assert file_of("a-b") == "secret-a-b.json"


def test_the_system_has_no_authorities(tmp_path: Path) -> None:
    """It is noticed where it matters: for providers that name none of their own."""
    settings = replace(STATIC, ca_file=str(tmp_path / "ca.pem"))
    policies = (policy_of(PLAIN, OWN), policy_of(SYSTEM))
    before = [lacks_authorities(policy, settings) for policy in policies]
    (tmp_path / "ca.pem").touch()
    after = [lacks_authorities(policy, settings) for policy in policies]

    assert (before, after) == ([False, True], [False, False])


def test_files_that_can_be_used(tmp_path: Path) -> None:
    """Certificates that can be read, and the key of the first, are no problem."""
    authority = Authority.create(tmp_path)
    own = replace(OWN, ca_file=str(authority.file), **authority.client_files("us"))

    assert list(problems_of(policy_of(PLAIN, SYSTEM, own))) == []


@pytest.mark.parametrize("field", ["ca_file", "cert_file", "key_file"])
def test_files_that_can_not_be_used(tmp_path: Path, field: str) -> None:
    """What Envoy could not read is told before it has to, by its path."""
    authority = Authority.create(tmp_path)
    bad = tmp_path / "bad.pem"
    bad.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    own = replace(OWN, ca_file=str(authority.file), **authority.client_files("us"))
    change: dict[str, Any] = {field: str(bad)}
    [problem] = problems_of(policy_of(replace(own, **change)))

    place = "ca_file" if field == "ca_file" else "key_file"
    assert problem.startswith(f"providers.own.{place}: ")


def test_the_key_of_another(tmp_path: Path) -> None:
    """A key that is not the certificate's is told: one of the two is still to come."""
    authority = Authority.create(tmp_path)
    ours, other = authority.client_files("us"), authority.client_files("other")
    own = replace(
        OWN,
        ca_file=str(authority.file),
        cert_file=ours["cert_file"],
        key_file=other["key_file"],
    )

    assert list(problems_of(policy_of(own))) == [
        "providers.own.key_file: is not the key of cert_file, or can't be read"
    ]
