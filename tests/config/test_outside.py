"""Credentials and certificates are looked up for all providers."""

from __future__ import annotations

import pathlib

from tests.config.policies import CANARY
from tokenweir.config.files import Files
from tokenweir.config.notifications_entry import NotificationsEntry, WebhookEntry
from tokenweir.config.outside import (
    MAX_CA_FILE_BYTES,
    NOT_LOOKED_UP,
    look_up,
    look_up_prices,
)
from tokenweir.config.prices_entry import PricesEntry
from tokenweir.config.schema import PolicyFile
from tokenweir.core.policy import Secret


def policy_file(**fields: str) -> PolicyFile:
    """Return a file with two providers, the second with *fields*."""
    provider = {"base_url": "https://a", "dialect": "openai"}
    providers = {"plain": provider, "other": {**provider, **fields}}
    return PolicyFile.model_validate(
        {"version": 1, "providers": providers, "models": {}, "tenants": {}}
    )


def test_credentials_are_by_provider() -> None:
    """A provider that names none has none."""
    found = look_up(policy_file(credential="env:A"), {"A": CANARY}, Files())

    assert found.credentials == {"other": Secret(CANARY)}
    assert found.problems == []


def test_certificates_are_looked_at(tmp_path: pathlib.Path) -> None:
    """Envoy would refuse all of its configuration for a file that is none."""
    good, bad = tmp_path / "good.pem", tmp_path / "bad.pem"
    large = tmp_path / "large.pem"
    good.write_text("-----BEGIN CERTIFICATE-----\n")
    bad.write_text("-----BEGIN PRIVATE KEY-----\n")
    large.write_bytes(b"-" * (MAX_CA_FILE_BYTES + 1))
    files = Files()

    assert look_up(policy_file(ca_file=str(good)), {}, files).problems == []
    assert list(files.seen) == [good]
    for path, text in (
        (bad, "holds no PEM certificate"),
        (large, "is larger than 4194304 bytes"),
        (tmp_path / "absent", "can't be read: no such file or directory"),
    ):
        found = look_up(policy_file(ca_file=str(path)), {}, files)
        assert list(map(str, found.problems)) == [f"providers.other.ca_file: {text}"]


def test_certificates_of_ours_are_read(tmp_path: pathlib.Path) -> None:
    """What stands for them changes with what the files hold, and with nothing else."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text("-----BEGIN CERTIFICATE-----\n")
    key.write_text("-----BEGIN EC PRIVATE KEY-----\n")
    file = policy_file(cert_file=str(cert), key_file=str(key))
    digests = []
    for text in ("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----", CANARY):
        digests.append(look_up(file, {}, Files()).files_digests["other"])
        key.write_text(text)

    assert digests[0] != digests[1] == digests[2]
    assert list(map(str, look_up(file, {}, Files()).problems)) == [
        "providers.other.key_file: holds no PEM private key"
    ]
    assert look_up(policy_file(), {}, Files()).files_digests == {}


def test_prices_are_read(tmp_path: pathlib.Path) -> None:
    """Each file, in the policy's order; what is wrong with one is told at its place."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"x": {"input_cost_per_token": 1e-6}}')
    bad.write_text('{"x": 5, "y": {"input_cost_per_token": "1"}}')
    file = policy_file().model_copy(
        update={"prices": PricesEntry(overlays=[str(bad), str(good)])}
    )
    files = Files()
    found = look_up(file, {}, files)

    assert [list(overlay.prices) for overlay in found.overlays] == [["x"]]
    assert {problem.path for problem in found.problems} == {("prices", "overlays", 0)}
    assert len(found.problems) == 2
    assert list(files.seen) == [bad, good]


def with_webhook(**fields: str) -> PolicyFile:
    """Return a file with a webhook, with *fields*."""
    entry = {"url": "https://a", "secret": "env:A", **fields}
    webhook = WebhookEntry.model_validate(entry)
    update = {"notifications": NotificationsEntry(webhook=webhook)}
    return policy_file().model_copy(update=update)


def test_a_webhook_has_a_secret(tmp_path: pathlib.Path) -> None:
    """It is looked up like a credential, and the certificates beside it."""
    good = tmp_path / "good.pem"
    good.write_text("-----BEGIN CERTIFICATE-----\n")

    found = look_up(with_webhook(ca_file=str(good)), {"A": CANARY}, Files())
    assert (found.webhook_secret, found.problems) == (Secret(CANARY), [])
    found = look_up(with_webhook(ca_file="/no/such"), {}, Files())
    assert found.webhook_secret is None
    assert list(map(str, found.problems)) == [
        "notifications.webhook.secret: environment variable A is not set",
        "notifications.webhook.ca_file: can't be read: no such file or directory",
    ]
    assert look_up(policy_file(), {}, Files()).webhook_secret is None


def test_everything_is_looked_up() -> None:
    """One problem does not keep the next from being found."""
    file = policy_file(credential="env:A", ca_file="/no/such")

    assert [problem.path[-1] for problem in look_up(file, {}, Files()).problems] == [
        "credential",
        "ca_file",
    ]


def test_prices_alone(tmp_path: pathlib.Path) -> None:
    """Secrets and certificates count as being there; prices are read, or told of."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"x": {"input_cost_per_token": 1e-6}}')
    webhook = WebhookEntry.model_validate({"url": "https://a", "secret": "env:S"})
    file = policy_file(credential="env:A", ca_file=str(bad)).model_copy(
        update={
            "prices": PricesEntry(overlays=[str(bad), str(good)]),
            "notifications": NotificationsEntry(webhook=webhook),
        }
    )
    found = look_up_prices(file, {}, Files())

    assert found.credentials == {"other": NOT_LOOKED_UP}
    assert found.webhook_secret == NOT_LOOKED_UP
    assert len(found.overlays) == 1
    assert [str(problem).partition(": ")[0] for problem in found.problems] == [
        "prices.overlays.0"
    ]
    assert look_up_prices(policy_file(), {}, Files()).webhook_secret is None
