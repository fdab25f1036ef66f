"""
What a policy refers to outside of itself: secrets, certificates, prices.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tokenweir.config.counting import missing_files, tokenize_credentials
from tokenweir.config.files import Files, UnreadableFileError
from tokenweir.config.prices.overlay import Overlay, load_overlay
from tokenweir.config.problem import Problem
from tokenweir.config.schema import PolicyFile, ProviderEntry
from tokenweir.config.secret_reference import resolve
from tokenweir.core.errors import PolicyError
from tokenweir.core.policy import Secret

# Far above the certificates of all public authorities together.
MAX_CA_FILE_BYTES = 4 * 1024 * 1024

# In place of a secret that nobody is going to use.
NOT_LOOKED_UP = Secret("not-looked-up")

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----")
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----")


@dataclass(slots=True)
class Outside:
    """
    Attributes:
        credentials: By provider.
        webhook_secret: None: there is no webhook, or it was not found.
        files_digests: What stands for the certificates of a provider, by provider.
        overlays: Of prices, in the policy's order.
        tokenize_credentials: By model: what a server that counts is sent.
        problems: What could not be found or used, without lines.
    """

    credentials: dict[str, Secret] = field(default_factory=dict)
    webhook_secret: Secret | None = None
    files_digests: dict[str, str] = field(default_factory=dict)
    overlays: list[Overlay] = field(default_factory=list)
    tokenize_credentials: dict[str, Secret] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


class LookUp(Protocol):
    """Fetches what a policy refers to."""

    def __call__(
        self, file: PolicyFile, env: Mapping[str, str], files: Files
    ) -> Outside:
        """Return it, with what could not be found or used."""


def look_up(file: PolicyFile, env: Mapping[str, str], files: Files) -> Outside:
    """Fetch what *file* refers to, all of it. Is a `LookUp`."""
    found = Outside()
    for name, entry in file.providers.items():
        path = ("providers", name)
        if entry.credential:
            try:
                found.credentials[name] = resolve(entry.credential, env, files)
            except ValueError as error:
                found.problems.append(Problem((*path, "credential"), str(error)))
        _look_up_certificates(name, entry, files, found)
    _look_up_webhook(file, env, files, found)
    found.tokenize_credentials = tokenize_credentials(file, env, files, found.problems)
    found.problems += missing_files(file)
    _look_up_overlays(file, files, found)
    return found


def look_up_prices(file: PolicyFile, env: Mapping[str, str], files: Files) -> Outside:
    """
    Fetch prices alone. Is a `LookUp`.

    Secrets and certificates count as being there: for saying what a policy does, where
    they are not at hand.
    """
    del env
    found = Outside()
    for name, entry in file.providers.items():
        if entry.credential:
            found.credentials[name] = NOT_LOOKED_UP
    if file.notifications.webhook is not None:
        found.webhook_secret = NOT_LOOKED_UP
    _look_up_overlays(file, files, found)
    return found


def _look_up_overlays(file: PolicyFile, files: Files, found: Outside) -> None:
    for index, overlay in enumerate(file.prices.overlays):
        place = ("prices", "overlays", index)
        try:
            found.overlays.append(load_overlay(pathlib.Path(overlay), files))
        except PolicyError as error:
            found.problems += [Problem(place, text) for text in error.problems]


def _look_up_webhook(
    file: PolicyFile, env: Mapping[str, str], files: Files, found: Outside
) -> None:
    entry, path = file.notifications.webhook, ("notifications", "webhook")
    if entry is None:
        return
    try:
        found.webhook_secret = resolve(entry.secret, env, files)
    except ValueError as error:
        found.problems.append(Problem((*path, "secret"), str(error)))
    if entry.ca_file:
        for text in _pem_problems(entry.ca_file, files):
            found.problems.append(Problem((*path, "ca_file"), text))


def _look_up_certificates(
    name: str, entry: ProviderEntry, files: Files, found: Outside
) -> None:
    """Look at them: Envoy reads them itself, and they must not be another's by then."""
    hold = {
        "ca_file": ("certificate", _CERTIFICATE),
        "cert_file": ("certificate", _CERTIFICATE),
        "key_file": ("private key", _PRIVATE_KEY),
    }
    seen = []
    for name_of_field, (what, mark) in hold.items():
        file = getattr(entry, name_of_field)
        if not file:
            continue
        for text in _pem_problems(file, files, what, mark):
            problem = Problem(("providers", name, name_of_field), text)
            found.problems.append(problem)
        seen.append(files.seen[pathlib.Path(file)])
    if seen:
        found.files_digests[name] = hashlib.sha256(repr(seen).encode()).hexdigest()


def _pem_problems(
    path: str,
    files: Files,
    what: str = "certificate",
    mark: re.Pattern[bytes] = _CERTIFICATE,
) -> Iterator[str]:
    try:
        content = files.read(pathlib.Path(path), MAX_CA_FILE_BYTES)
    except UnreadableFileError as error:
        yield str(error)
    else:
        if not mark.search(content):
            yield f"holds no PEM {what}"
