"""
Entries to the snapshot that decisions are made from.

Nothing is checked here but what only shows in the result: see `references`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tokenweir.config.audit_entry import AuditEntry
from tokenweir.config.cap_entry import CapEntry
from tokenweir.config.compile_quota import EVERY_TENANT, compile_quota, key_scope
from tokenweir.config.counting import compile_tokenize
from tokenweir.config.references import DEFAULT_TIMEOUT_CLASS
from tokenweir.config.responses_entry import ResponsesEntry
from tokenweir.config.schema import (
    KeyEntry,
    ModelEntry,
    PolicyFile,
    ProviderEntry,
    TenantEntry,
)
from tokenweir.core.cap import Cap
from tokenweir.core.policy import (
    ApiKey,
    Model,
    OnLedgerFailure,
    Policy,
    Provider,
    Secret,
    Tenant,
    TimeoutClass,
)
from tokenweir.core.prompt_part import Audit
from tokenweir.core.response_path import AUTO, ResponsePath, Responses
from tokenweir.core.webhook import Webhook

# Most answers fit: what is more is settled as debt.
_DEFAULT_OUTPUT_TOKENS = 4_096
_NOTHING: Mapping[str, str] = MappingProxyType({})
# What base URLs are often copied with.
_ROOTS = {"azure": "/openai", "gemini": "/v1beta"}


def compile_policy(
    file: PolicyFile,
    digest: str,
    credentials: Mapping[str, Secret],
    files_digests: Mapping[str, str] = _NOTHING,
    tokenize_credentials: Mapping[str, Secret] = MappingProxyType({}),
) -> Policy:
    """
    Return the snapshot of a *file* that has no problems.

    *digest* tells it apart from others, *credentials* and *files_digests* (of
    certificates) are by provider, *tokenize_credentials* by model.
    """
    models = {
        name: _model(
            name,
            entry,
            tokenize_credentials.get(name),
            calibrated=file.calibration
            if entry.calibration is None
            else entry.calibration,
        )
        for name, entry in file.models.items()
    }
    return Policy(
        digest=digest,
        providers=MappingProxyType(
            {
                name: replace(
                    _provider(name, entry, credentials.get(name)),
                    files_digest=files_digests.get(name, ""),
                )
                for name, entry in file.providers.items()
            }
        ),
        models=MappingProxyType(
            {name: model for name, model in models.items() if not name.endswith("*")}
        ),
        model_families=_families(models.values()),
        tenants=MappingProxyType(
            {name: _tenant(name, entry, file) for name, entry in file.tenants.items()}
        ),
        keys=MappingProxyType(_keys(file)),
        single_tenant=file.single_tenant,
        default_providers=MappingProxyType(_default_providers(file)),
        timeout_classes=MappingProxyType(_timeout_classes(file)),
        route_timeouts=MappingProxyType(_named(file.route_timeouts)),
        retries=file.retries,
        body_limit_bytes=file.body_limit,
        caps=tuple(map(_cap, file.caps)),
        audit=_audit(file.audit),
        responses=_responses(file.responses),
    )


def compile_webhook(file: PolicyFile, secret: Secret | None) -> Webhook | None:
    """Return who is told what budgets have passed; None: nobody, or no *secret*."""
    entry = file.notifications.webhook
    if entry is None or secret is None:
        return None
    return Webhook(entry.url, secret, entry.timeout, entry.ca_file)


def _responses(entry: ResponsesEntry) -> Responses:
    routes = {str(route): _path(name) for route, name in entry.routes.items()}
    return Responses(_path(entry.path), MappingProxyType(routes))


def _path(name: str) -> ResponsePath:
    return AUTO if name == "auto" else ResponsePath(name)


def _provider(name: str, entry: ProviderEntry, credential: Secret | None) -> Provider:
    return Provider(
        name=name,
        dialect=entry.dialect,
        scheme=entry.base_url.scheme,
        host=entry.base_url.host,
        port=entry.base_url.port,
        path_prefix=_path_prefix(entry),
        credential=credential,
        ca_file=entry.ca_file,
        cert_file=entry.cert_file,
        key_file=entry.key_file,
        opaque_paths=entry.unknown_paths,
        output_cap_field=entry.output_cap_field,
        version_path=entry.version_path,
        ask_for_usage=entry.ask_for_usage,
        http2=entry.http2,
    )


def _path_prefix(entry: ProviderEntry) -> str:
    prefix = entry.base_url.path_prefix
    # Apps' paths begin with it.
    return prefix.removesuffix(_ROOTS.get(entry.dialect, ""))


def _model(
    name: str, entry: ModelEntry, credential: Secret | None, *, calibrated: bool
) -> Model:
    return Model(
        name=name,
        provider=entry.provider,
        upstream_model=entry.upstream_model,
        max_output_tokens=entry.max_output_tokens,
        default_output_tokens=entry.default_output_tokens
        or min(_DEFAULT_OUTPUT_TOKENS, entry.max_output_tokens),
        tokenizer=entry.tokenizer,
        timeout_class=entry.timeout_class,
        maximum_is_known="max_output_tokens" in entry.model_fields_set,
        message_tokens=entry.message_tokens,
        tokenize_server=compile_tokenize(entry, credential),
        calibrated=calibrated,
    )


def _cap(entry: CapEntry) -> Cap:
    return Cap(
        entry.output_tokens,
        entry.if_unset,
        tuple(entry.models or ()),
        tuple(entry.routes or ()),
        tuple(entry.tenants or ()),
    )


def _audit(entry: AuditEntry) -> Audit:
    return Audit(
        entry.prompts,
        tuple(entry.prompts_of or ()),
        entry.keep_prompt_text,
        tuple(entry.keep_prompt_text_of or ()),
    )


def _families(models: Iterable[Model]) -> tuple[Model, ...]:
    families = [model for model in models if model.name.endswith("*")]
    return tuple(sorted(families, key=lambda model: (-len(model.name), model.name)))


def _tenant(name: str, entry: TenantEntry, file: PolicyFile) -> Tenant:
    on_failure = _on_failure(entry, file)
    own = [compile_quota(quota, name, on_failure) for quota in entry.quotas]
    every = [compile_quota(quota, EVERY_TENANT, on_failure) for quota in file.quotas]
    return Tenant(
        name=name,
        quotas=(*own, *every),
        models=tuple(entry.models or ()),
        on_ledger_failure=on_failure,
    )


def _keys(file: PolicyFile) -> dict[str, ApiKey]:
    return {
        key.sha256.lower(): compile_key(key, name, _on_failure(entry, file))
        for name, entry in file.tenants.items()
        for key in entry.keys
    }


def compile_key(
    entry: KeyEntry, tenant: str, on_ledger_failure: OnLedgerFailure
) -> ApiKey:
    """
    Return the key of *tenant* that *entry* describes.

    *on_ledger_failure* is what holds for its quotas if they do not say.
    """
    scope = key_scope(tenant, entry.id)
    return ApiKey(
        id=entry.id,
        tenant=tenant,
        models=tuple(entry.models or ()),
        routes=tuple(entry.routes or ()),
        quotas=tuple(
            compile_quota(quota, scope, on_ledger_failure) for quota in entry.quotas
        ),
        ends_at_ms=entry.expires_at,
    )


def _on_failure(entry: TenantEntry, file: PolicyFile) -> OnLedgerFailure:
    return OnLedgerFailure(entry.on_ledger_failure or file.on_ledger_failure)


def _default_providers(file: PolicyFile) -> dict[str, str]:
    names = _named(file.default_providers)
    for name, entry in file.providers.items():
        names.setdefault(entry.dialect, name)
    return names


def _named(names: Mapping[Any, str]) -> dict[str, str]:
    return dict(names)


def _timeout_classes(file: PolicyFile) -> dict[str, TimeoutClass]:
    classes = {DEFAULT_TIMEOUT_CLASS: TimeoutClass(DEFAULT_TIMEOUT_CLASS)}
    for name, entry in file.timeouts.items():
        classes[name] = TimeoutClass(name, entry.total, entry.idle)
    return classes
