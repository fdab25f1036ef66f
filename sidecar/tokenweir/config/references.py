"""
What one entry says about another.

A name that refers to nothing is the most common reason for a limit that never
applies, so none is let through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tokenweir.config.budget_fit import misfits
from tokenweir.config.budget_stop import endless
from tokenweir.config.compile_quota import EVERY_TENANT, key_scope, quota_id
from tokenweir.config.counting import exposed
from tokenweir.config.name_pattern import any_overlap
from tokenweir.config.problem import Path, Problem
from tokenweir.config.salvage import REQUIRED_SECTIONS, LeftOut
from tokenweir.config.schema import (
    KeyEntry,
    PolicyFile,
    ProviderEntry,
    QuotaEntry,
    TenantEntry,
)
from tokenweir.core.model_family import FAMILIES
from tokenweir.core.tokenizer_name import path_in

# Always there, whether the file says more about it or not.
DEFAULT_TIMEOUT_CLASS = "default"

# A provider's name is that of a cluster in Envoy, where there are others of ours.
RESERVED_PREFIX = "tokenweir"


class References:
    """
    Checks of a file as a whole.

    What was *left out* because it is wrong itself counts as being there.
    """

    def __init__(self, file: PolicyFile, left_out: LeftOut) -> None:
        self._file = file
        self._left_out = left_out
        self._names = {
            section: {*getattr(file, section), *left_out.names(section)}
            for section in (*REQUIRED_SECTIONS, "timeouts")
        }
        self._names["timeouts"].add(DEFAULT_TIMEOUT_CLASS)

    def problems(self) -> Iterator[Problem]:
        """Yield all of them, without lines."""
        yield from self._empty_sections()
        yield from self._providers()
        yield from self._models()
        yield from exposed(self._file)
        yield from self._other_names()
        yield from self._top_quotas()
        yield from self._caps()
        yield from self._audit()
        for name, tenant in self._file.tenants.items():
            yield from self._tenant(("tenants", name), tenant)
        yield from self._keys()
        yield from endless(self._file, self._left_out)

    def _empty_sections(self) -> Iterator[Problem]:
        for name in REQUIRED_SECTIONS:
            if not self._names[name] and not self._left_out.section(name):
                yield Problem((name,), "must have at least one entry")

    def _providers(self) -> Iterator[Problem]:
        for name, entry in self._file.providers.items():
            path = ("providers", name)
            yield from _of_openai_only(path, entry)
            if name.lower().startswith(RESERVED_PREFIX):
                yield Problem(path, "has a name that is kept for Tokenweir's own parts")
            plain = entry.base_url.scheme == "http"
            exposed = plain and not entry.base_url.is_loopback
            if exposed and entry.credential and not entry.allow_plaintext:
                yield Problem(
                    (*path, "base_url"),
                    "would send the credential in plain text to another machine: use "
                    "https, or say `allow_plaintext: true`",
                )
            if entry.http2 and not plain:
                text = "goes with http only: over https both sides agree on it (ALPN)"
                yield Problem((*path, "http2"), text)
            yield from _certificates(entry, path)

    def _models(self) -> Iterator[Problem]:
        for name, entry in self._file.models.items():
            path = ("models", name)
            yield from self._known(entry.provider, "providers", (*path, "provider"))
            if entry.timeout_class:
                place = (*path, "timeout_class")
                yield from self._known(entry.timeout_class, "timeouts", place)
            named = entry.tokenizer
            if named and named not in FAMILIES and path_in(named) is None:
                text = f"is unknown; known are {', '.join(FAMILIES)}"
                yield Problem((*path, "tokenizer"), text)
            default = entry.default_output_tokens
            if default and default > entry.max_output_tokens:
                yield Problem(
                    (*path, "default_output_tokens"),
                    f"must be at most max_output_tokens, {entry.max_output_tokens}",
                )

    def _other_names(self) -> Iterator[Problem]:
        for route, name in self._file.route_timeouts.items():
            yield from self._known(name, "timeouts", ("route_timeouts", route))
        for dialect, name in self._file.default_providers.items():
            path = ("default_providers", dialect)
            yield from self._known(name, "providers", path)
            provider = self._file.providers.get(name)
            if provider and provider.dialect != dialect:
                yield Problem(path, f"is a provider that speaks {provider.dialect}")
        tenant = self._file.single_tenant
        if tenant:
            yield from self._known(tenant, "tenants", ("single_tenant",))

    def _known(self, name: str, section: str, path: Path) -> Iterator[Problem]:
        gone = self._left_out.section(section)
        if name not in self._names[section] and not gone:
            yield Problem(path, f"is not among `{section}`")

    def _top_quotas(self) -> Iterator[Problem]:
        yield from _same_ids(self._file.quotas, EVERY_TENANT, ("quotas",))
        for index, quota in enumerate(self._file.quotas):
            path = ("quotas", index)
            if quota.partition is None:
                yield Problem(
                    (*path, "partition"),
                    "is missing: say [tenant] for a limit that each tenant has "
                    "for itself, or [provider] or [model] for one that all share",
                )
            yield from self._quota(quota, path)

    def _caps(self) -> Iterator[Problem]:
        for index, cap in enumerate(self._file.caps):
            path = ("caps", index)
            yield from self._known_models(cap.models, (*path, "models"))
            for place, name in enumerate(cap.tenants or ()):
                yield from self._known(name, "tenants", (*path, "tenants", place))

    def _audit(self) -> Iterator[Problem]:
        for field in ("prompts_of", "keep_prompt_text_of"):
            for place, name in enumerate(getattr(self._file.audit, field) or ()):
                path = ("audit", field, place)
                yield from self._known(name, "tenants", path)

    def _tenant(self, path: Path, tenant: TenantEntry) -> Iterator[Problem]:
        yield from self._known_models(tenant.models, (*path, "models"))
        yield from _same_ids(tenant.quotas, str(path[1]), (*path, "quotas"))
        for index, quota in enumerate(tenant.quotas):
            yield from self._quota(quota, (*path, "quotas", index))
        for index, key in enumerate(tenant.keys):
            yield from self._key(key, (*path, "keys", index))

    def _key(self, key: KeyEntry, path: Path) -> Iterator[Problem]:
        yield from self._known_models(key.models, (*path, "models"))
        scope = key_scope(str(path[1]), key.id)
        yield from _same_ids(key.quotas, scope, (*path, "quotas"))
        for index, quota in enumerate(key.quotas):
            yield from self._quota(quota, (*path, "quotas", index))

    def _quota(self, quota: QuotaEntry, path: Path) -> Iterator[Problem]:
        yield from self._known_models(quota.models, (*path, "models"))
        for problem in misfits(quota):
            yield replace(problem, path=(*path, *problem.path))
        if quota.on_exceeded is not None:
            place = (*path, "on_exceeded", "downgrade_to")
            yield from self._known_models(quota.on_exceeded.downgrade_to, place)

    def _known_models(
        self, patterns: Iterable[str] | None, path: Path
    ) -> Iterator[Problem]:
        if self._left_out.section("models"):
            return
        for index, pattern in enumerate(patterns or ()):
            if not any_overlap([pattern], self._names["models"]):
                yield Problem((*path, index), "matches no model of this policy")

    def _keys(self) -> Iterator[Problem]:
        ids: dict[str, str] = {}
        digests: dict[str, str] = {}
        for name, tenant in self._file.tenants.items():
            for index, key in enumerate(tenant.keys):
                path = ("tenants", name, "keys", index)
                if key.id in ids:
                    text = f"is the id of another key too, of tenant {ids[key.id]}"
                    yield Problem((*path, "id"), text)
                digest = key.sha256.lower()
                if digest in digests:
                    text = f"is that of another key too, of tenant {digests[digest]}"
                    yield Problem((*path, "sha256"), text)
                ids.setdefault(key.id, name)
                digests.setdefault(digest, name)


def _certificates(entry: ProviderEntry, path: Path) -> Iterator[Problem]:
    plain = entry.base_url.scheme == "http"
    for field in ("ca_file", "cert_file", "key_file"):
        if plain and getattr(entry, field):
            yield Problem((*path, field), "has no effect with http")
    for field, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
        if getattr(entry, field) and not getattr(entry, other):
            yield Problem((*path, field), f"only goes with {other}")


def _of_openai_only(path: Path, entry: ProviderEntry) -> Iterator[Problem]:
    if entry.dialect in ("openai", "azure"):
        return
    for field in sorted({"output_cap_field", "ask_for_usage"} & entry.model_fields_set):
        yield Problem((*path, field), "only goes with the OpenAI API: remove it")


def _same_ids(
    quotas: Sequence[QuotaEntry], scope: str, path: Path
) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, quota in enumerate(quotas):
        identity = quota_id(quota, scope)
        if identity in seen:
            same = "axis, `per` and partition" if quota.per else "axis and partition"
            yield Problem(
                (*path, index, "name"),
                "must be set and different: another quota of this list has the same "
                f"{same}, or this name",
            )
        seen.add(identity)
