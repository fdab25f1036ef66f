"""
What can be said of a pod's sidecars: each once, for annotations and command lines.

An annotation ``tokenweir.io/NAME`` says it of one pod, ``--set NAME=VALUE`` of all that
have no such annotation. docs/kubernetes/injection.md has the same table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tokenweir.core.errors import TokenweirError
from tokenweir.inject.guard import guarded_hosts
from tokenweir.inject.names import DOMAIN, INJECTED_LABEL, STATUS_ANNOTATION
from tokenweir.inject.settings import (
    API_WORDS,
    FROM_LEDGER,
    KeyIn,
    Mode,
    Resources,
    Settings,
)

_PREFIX = f"{DOMAIN}/"
_CONFIG_MAP = "configmap:"
_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_KEY = r"[-._a-zA-Z0-9]{1,253}"
_OBJECT = re.compile(_NAME)
_ENTRY = re.compile(rf"(?P<name>{_NAME})(/(?P<key>{_KEY}))?")
# As in a policy.
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_CONTAINER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VERSION = re.compile(r"v?(?P<major>\d{1,3})\.(?P<minor>\d{1,3})(\D.*)?")
_LEVELS = ("trace", "debug", "info", "warning", "error", "critical", "off")
_UNKNOWN = {"inject": "it is a label, not an annotation"}
_PULLS = ("Always", "IfNotPresent", "Never")


class OptionError(TokenweirError):
    """
    Something that can't be used.

    Attributes:
        problems: What is wrong; each begins with the option's name.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True)
class Option:
    """
    One thing that can be said.

    Attributes:
        name: Without prefix.
        values: What it takes, for people.
        meaning: What it does, for people.
        apply: Returns settings with the value in them. Raises: ValueError.
    """

    name: str
    values: str
    meaning: str
    apply: Callable[[Settings, str], Settings]

    @property
    def annotation(self) -> str:
        """The annotation that says it."""
        return _PREFIX + self.name


def settings_with(settings: Settings, given: Mapping[str, str]) -> Settings:
    """
    Return *settings* with what was *given*, by names without prefix.

    Raises: OptionError, with all that is wrong.
    """
    problems = []
    for name, value in given.items():
        option = BY_NAME.get(name)
        if option is None:
            problems.append(f"{name}: {_UNKNOWN.get(name, 'there is no such option')}")
            continue
        try:
            settings = option.apply(settings, value)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if settings.port == settings.admin_port:
        problems.append(f"admin-port: {settings.port} is where apps call: take another")
    if problems:
        raise OptionError(problems)
    return settings


def settings_for(annotations: Mapping[str, object], defaults: Settings) -> Settings:
    """
    Return the settings of a pod with *annotations*.

    Raises: OptionError; one of ours that nobody knows is wrong, too: it is a slip, and
    what it was meant for would not happen.
    """
    given = {
        name.removeprefix(_PREFIX): str(value)
        for name, value in annotations.items()
        if name.startswith(_PREFIX) and name not in (STATUS_ANNOTATION, INJECTED_LABEL)
    }
    barred = sorted(defaults.fixed & given.keys())
    if barred:
        raise OptionError(f"{name}: is fixed in this cluster" for name in barred)
    return settings_with(defaults, given)


# === values ===================================================================


def _matching(pattern: re.Pattern[str], text: str, wanted: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(f"must be {wanted}")
    return text


def _one_of(words: Iterable[str], text: str) -> str:
    known = tuple(words)
    if text not in known:
        raise ValueError(f"must be one of {', '.join(known)}")
    return text


def _entry(text: str, key: str) -> KeyIn:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise ValueError(f"must be NAME or NAME/KEY, as in tokenweir/{key}")
    return KeyIn(match["name"], match["key"] or key)


def _policy(text: str) -> KeyIn | None:
    if text == FROM_LEDGER:
        return None
    if not text.startswith(_CONFIG_MAP):
        raise ValueError("must be ledger, configmap:NAME or configmap:NAME/FILE")
    return _entry(text.removeprefix(_CONFIG_MAP), "policy.yaml")


def _port(text: str) -> int:
    # Below are ports that only root may listen on.
    if not text.isdecimal() or not 1024 <= int(text) <= 65_535:
        raise ValueError("must be a TCP port from 1024 to 65535")
    return int(text)


def _version(text: str) -> tuple[int, int]:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError("must be a version of Kubernetes, as in 1.29")
    return int(match["major"]), int(match["minor"])


def _names(text: str) -> tuple[str, ...]:
    wanted = "names of containers, with commas between them"
    return tuple(
        _matching(_CONTAINER, name.strip(), wanted)
        for name in text.split(",")
        if name.strip()
    )


def _apis(text: str) -> tuple[str, ...]:
    return tuple(_one_of(API_WORDS, word.strip()) for word in text.split(",") if word)


def _optional(pattern: re.Pattern[str], text: str, wanted: str) -> str:
    return _matching(pattern, text, f"{wanted}, or empty") if text else ""


# === options ==================================================================


def _resource(container: str, attribute: str) -> Option:
    """Return the option of one quantity of one container."""

    def apply(settings: Settings, text: str) -> Settings:
        value = _optional(_QUANTITY, text, "a quantity, as in 100m or 128Mi")
        resources: Resources = getattr(settings, container)
        changed = replace(resources, **{attribute: value})
        if container == "processor":
            return replace(settings, processor=changed)
        return replace(settings, envoy=changed)

    what, _, kind = attribute.partition("_")
    meaning = {
        "request": f"{'CPU' if what == 'cpu' else 'memory'} that the {container} asks for",
        "limit": f"{'CPU' if what == 'cpu' else 'memory'} that the {container} may use",
    }[kind].replace("the envoy", "Envoy")
    return Option(
        f"{container}-{attribute.replace('_', '-')}",
        "quantity, or empty",
        meaning,
        apply,
    )


OPTIONS: tuple[Option, ...] = (
    Option(
        "tenant",
        "name",
        "whose calls the pod's are, whatever key they have; default: the key's tenant",
        lambda s, v: replace(s, tenant=_optional(_TENANT, v, "a tenant's name")),
    ),
    Option(
        "policy",
        "`configmap:NAME[/FILE]`, `ledger`",
        "where the policy is: a ConfigMap of the pod's namespace, or published",
        lambda s, v: replace(s, policy=_policy(v)),
    ),
    Option(
        "ledger-secret",
        "`NAME[/KEY]`",
        "Secret with the ledger's URL; all its files are at "
        "`/var/run/secrets/tokenweir/ledger`, for `password_file` and authorities",
        lambda s, v: replace(s, ledger=_entry(v, "url")),
    ),
    Option(
        "credentials-secret",
        "name, or empty",
        "Secret with providers' credentials, for the processor only: as variables "
        "(`env:NAME`), and as files in `/var/run/secrets/tokenweir/credentials`",
        lambda s, v: replace(s, credentials=_optional(_OBJECT, v, "a Secret's name")),
    ),
    Option(
        "certificates-secret",
        "name, or empty",
        "Secret with `cert_file` and `key_file` of the policy, for both: in "
        "`/var/run/secrets/tokenweir/certificates`",
        lambda s, v: replace(s, certificates=_optional(_OBJECT, v, "a Secret's name")),
    ),
    Option(
        "key-secret",
        "`NAME[/KEY]`, or empty",
        "Secret with the app's own key of Tokenweir, which it gets as its API key; "
        "default: a word that is no key, for policies or pods of one tenant",
        lambda s, v: replace(s, api_key=_entry(v, "key") if v else None),
    ),
    Option(
        "containers",
        "names, with commas",
        "which containers are told where to call; default: all",
        lambda s, v: replace(s, containers=_names(v)),
    ),
    Option(
        "apis",
        "`openai`, `anthropic`, `azure`, `gemini`, `bedrock`",
        "whose SDKs are told, with commas between them; default: all",
        lambda s, v: replace(s, apis=_apis(v)),
    ),
    Option(
        "transparent",
        "hosts, with commas, or empty",
        "hosts that can't be called but through Envoy: see [below](#transparent-mode)",
        lambda s, v: replace(s, guarded=guarded_hosts(v)),
    ),
    Option(
        "image",
        "reference",
        "image of both sidecars",
        lambda s, v: replace(s, image=_matching(_IMAGE, v, "an image's reference")),
    ),
    Option(
        "image-pull-policy",
        "`Always`, `IfNotPresent`, `Never`",
        "when it is pulled; default: as its tag has it",
        lambda s, v: replace(s, image_pull_policy=_one_of(_PULLS, v)),
    ),
    Option(
        "log-level",
        "`trace` … `off`",
        "how much Envoy logs",
        lambda s, v: replace(s, log_level=_one_of(_LEVELS, v)),
    ),
    Option(
        "port",
        "TCP port",
        "where apps find Envoy, on 127.0.0.1",
        lambda s, v: replace(s, port=_port(v)),
    ),
    Option(
        "admin-port",
        "TCP port",
        "health and metrics, on the pod's address",
        lambda s, v: replace(s, admin_port=_port(v)),
    ),
    Option(
        "kube-version",
        "`1.28`",
        "the oldest kubelet's version; from 1.29 on sidecars are native",
        lambda s, v: replace(s, kube_version=_version(v)),
    ),
    Option(
        "mode",
        "`auto`, `native`, `plain`",
        "how the sidecars stand in the pod; default: by version",
        lambda s, v: replace(s, mode=Mode(_one_of(Mode, v))),
    ),
    *(
        _resource(container, f"{what}_{kind}")
        for container in ("processor", "envoy")
        for what in ("cpu", "memory")
        for kind in ("request", "limit")
    ),
)
BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
