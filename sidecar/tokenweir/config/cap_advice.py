"""Caps on output that are right but change nothing: see `advice`."""

from __future__ import annotations

from collections.abc import Iterator

from tokenweir.config.name_pattern import any_overlap
from tokenweir.core.cap import Cap
from tokenweir.core.dialects import speakers_of
from tokenweir.core.policy import Model, Policy


def cap_advice(policy: Policy) -> Iterator[str]:
    """Yield what is worth a look, a line each."""
    for index, cap in enumerate(policy.caps):
        models = [*_capped(cap, policy)]
        if not models:
            yield f"caps.{index}: can never apply, so it caps nothing"
            continue
        if not all(model.maximum_is_known for model in models):
            continue
        most = max(model.max_output_tokens for model in models)
        if cap.output_tokens is not None and cap.output_tokens >= most:
            yield (
                f"caps.{index}.output_tokens: is no less than the max_output_tokens of "
                f"the models that it is for, {most:,}, so it saves nothing"
            )
        if cap.if_unset is not None and cap.if_unset > most:
            yield (
                f"caps.{index}.if_unset: is above the max_output_tokens of the models "
                f"that it is for, {most:,}: that is set in its place"
            )


def _capped(cap: Cap, policy: Policy) -> Iterator[Model]:
    """Yield the models that somebody may call under *cap*."""
    tenants = [
        tenant
        for tenant in policy.tenants.values()
        if not cap.tenants or tenant.name in cap.tenants
    ]
    dialects = {name for route in cap.routes for name in speakers_of(route)}
    for model in (*policy.models.values(), *policy.model_families):
        dialect = policy.providers[model.provider].dialect
        if dialects and dialect not in dialects:
            continue
        if any(
            _overlap(cap.models, tenant.models, (model.name,)) for tenant in tenants
        ):
            yield model


def _overlap(*lists: tuple[str, ...]) -> bool:
    """Tell if each two of *lists* have a name in common; an empty one has all."""
    named = [names for names in lists if names]
    return all(
        any_overlap(some, others)
        for place, some in enumerate(named)
        for others in named[place + 1 :]
    )
