"""
Which requests a quota can ever apply to, by what its callers may call.

A caller is a tenant by one of its keys: the key's models and routes are what it may
call of the tenant's. Where every caller is one tenant, keys and other tenants play no
part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tokenweir.config.name_pattern import common, covers
from tokenweir.core.dialects import default_dialect, speakers_of
from tokenweir.core.identify import COUNTING_ROUTE, TOKEN_FREE_PATHS
from tokenweir.core.policy import ApiKey, Axis, Model, Policy, Quota, Tenant

# What the body of a request on these routes holds is not read: no model is known.
_UNREAD_ROUTES = frozenset({"models", "opaque", "other"})

# What names a model and costs no tokens: who has such paths, by route.
_TOKEN_FREE: dict[str, set[str]] = {COUNTING_ROUTE: {"gemini", "bedrock"}}
for _path, _route in TOKEN_FREE_PATHS.items():
    _TOKEN_FREE.setdefault(_route, set()).add(default_dialect(_path, ()).name)

_UNREAD_AXES = frozenset({Axis.REQUESTS, Axis.CONCURRENCY})


@dataclass(frozen=True, slots=True)
class Scope:
    """
    What somebody may call.

    Attributes:
        models: Lists of names (exact, or ending in ``*``): each must have the model.
        routes: Only these; empty: all.
    """

    models: tuple[tuple[str, ...], ...] = ()
    routes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Held:
    """
    A quota and who has it.

    Attributes:
        quota: The quota.
        tenants: That have it; of a key's own quota: what stands for its bearer.
        scopes: Of the keys by which one can call as any of them.
    """

    quota: Quota
    tenants: Sequence[Tenant]
    scopes: frozenset[Scope]

    @property
    def widest(self) -> frozenset[Scope]:
        """What the tenants may call, whatever their keys may."""
        return frozenset(_scope(tenant) for tenant in self.tenants)


def without_ended_keys(policy: Policy, now_ms: int) -> Policy:
    """
    Return *policy* with the keys only that work at *now_ms*.

    What has expired, or was revoked, is refused: limits of its own are not missed.
    """
    kept = {
        digest: key
        for digest, key in policy.keys.items()
        if key.ends_at_ms is None or key.ends_at_ms > now_ms
    }
    if len(kept) == len(policy.keys):
        return policy
    return replace(policy, keys=MappingProxyType(kept))


class Matching:
    """Looks at the quotas of one *policy*. Whatever key it has counts as working."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._models = (*policy.models.values(), *policy.model_families)
        self._opaque = any(each.opaque_paths for each in policy.providers.values())
        # There may be tens of thousands of keys, and few kinds of them.
        self._scopes: dict[str, set[Scope]] = {}
        self._callable: dict[tuple[object, ...], tuple[Model, ...]] = {}
        for key in policy.keys.values():
            tenant = policy.tenants[key.tenant]
            scope = _scope(tenant, key.models, key.routes)
            self._scopes.setdefault(tenant.name, set()).add(scope)
        if policy.single_tenant is not None:
            tenant = policy.tenants[policy.single_tenant]
            self._scopes = {tenant.name: {_scope(tenant)}}

    def quotas(self) -> Iterator[Held]:
        """Yield each quota once, with those that have it."""
        having: dict[str, tuple[Quota, list[Tenant]]] = {}
        for tenant in self._policy.tenants.values():
            for quota in tenant.quotas:
                having.setdefault(quota.id, (quota, []))[1].append(tenant)
        for quota, tenants in having.values():
            found = (self._scopes.get(tenant.name, set()) for tenant in tenants)
            yield Held(quota, tenants, frozenset().union(*found))
        yield from self._quotas_of_keys()

    def can_match(self, quota: Quota, scopes: Iterable[Scope]) -> bool:
        """Tell if *quota* applies to some request that one of *scopes* may make."""
        scopes = tuple(scopes)
        if any(self._matches_unread(quota, scope) for scope in scopes):
            return True
        return next(self.models(quota, scopes), None) is not None

    def models(self, quota: Quota, scopes: Iterable[Scope]) -> Iterator[Model]:
        """Yield the models that some of *scopes* may call under *quota*, each once."""
        seen: set[str] = set()
        for scope in scopes:
            for model in self._called(quota, scope):
                if model.name not in seen:
                    seen.add(model.name)
                    yield model

    def matches_model(self, quota: Quota, scope: Scope, model: Model) -> bool:
        """Tell if *quota* applies to some request for *model* that *scope* may make."""
        return model in self._called(quota, scope)

    def names_meet(self, quota: Quota, scopes: Iterable[Scope]) -> bool:
        """Tell if *scopes* may call what *quota* is for, as far as names tell."""
        anywhere = replace(quota, routes=(), axis=Axis.REQUESTS)
        wide = (replace(scope, routes=frozenset()) for scope in scopes)
        return next(self.models(anywhere, wide), None) is not None

    # === parts =================================================================

    def _quotas_of_keys(self) -> Iterator[Held]:
        """Yield keys' own quotas. A key that is rotated has two secrets of one id."""
        found: dict[str, tuple[Quota, Tenant, set[Scope]]] = {}
        for key in self._policy.keys.values():
            tenant = self._policy.tenants[key.tenant]
            for quota in key.quotas:
                bearer = _bearer(key, tenant)
                _, _, scopes = found.setdefault(quota.id, (quota, bearer, set()))
                if self._policy.single_tenant is None:
                    scopes.add(_scope(tenant, key.models, key.routes))
        for quota, bearer, scopes in found.values():
            yield Held(quota, [bearer], frozenset(scopes))

    def _called(self, quota: Quota, scope: Scope) -> tuple[Model, ...]:
        """Return the models that *scope* may call under *quota*."""
        # Tenants' quotas are much alike: of thousands few differ in this.
        has_tokens = quota.axis not in _UNREAD_AXES
        alike = (quota.models, quota.routes, has_tokens, scope)
        found = self._callable.get(alike)
        if found is None:
            found = self._callable[alike] = tuple(
                model
                for model in self._models
                if self._is_called(model, quota, scope)
                and self._is_spoken(model, quota, scope)
            )
        return found

    def _is_called(self, model: Model, quota: Quota, scope: Scope) -> bool:
        """Tell if some name is for *model*, and in all lists."""
        names = [model.name]
        for others in (quota.models, *scope.models):
            if others:
                names = common(names, others)
        return any(self._meant_by(name) is model for name in names)

    def _meant_by(self, name: str) -> Model | None:
        """Return the model that *name* stands for; of a family of names: by most."""
        if not name.endswith("*"):
            return self._policy.model(name)
        families = self._policy.model_families
        return next((each for each in families if covers(each.name, name)), None)

    def _is_spoken(self, model: Model, quota: Quota, scope: Scope) -> bool:
        """Tell if the model's provider speaks what one of the routes is for."""
        routes = _both(quota.routes, scope.routes)
        if routes is None:
            return True
        dialect = self._policy.providers[model.provider].dialect
        return dialect in dialects(quota.axis, routes)

    def _matches_unread(self, quota: Quota, scope: Scope) -> bool:
        """Tell if *quota* applies to some request whose body is not read."""
        if quota.axis not in _UNREAD_AXES or (quota.models and "*" not in quota.models):
            return False
        routes = _both(quota.routes, scope.routes)
        found = _UNREAD_ROUTES if routes is None else _UNREAD_ROUTES & routes
        return bool(found if self._opaque else found - {"opaque"})


def dialects(axis: Axis, routes: Iterable[str]) -> Iterator[str]:
    """Yield the dialects of *routes*, as far as *axis* limits anything there."""
    for route in routes:
        if route not in _TOKEN_FREE and route not in _UNREAD_ROUTES:
            yield from speakers_of(route)
        elif route in _TOKEN_FREE and axis in _UNREAD_AXES:
            yield from _TOKEN_FREE[route]


def _bearer(key: ApiKey, tenant: Tenant) -> Tenant:
    models = key.models or tenant.models
    return replace(tenant, models=models, quotas=key.quotas + tenant.quotas)


def _scope(
    tenant: Tenant, models: tuple[str, ...] = (), routes: Iterable[str] = ()
) -> Scope:
    lists = tuple(names for names in (tenant.models, models) if names)
    return Scope(lists, frozenset(routes))


def _both(some: Iterable[str], others: Iterable[str]) -> frozenset[str] | None:
    """Return what is in both; empty lists have everything. None: everything is."""
    first, second = frozenset(some), frozenset(others)
    if first and second:
        return first & second
    return first or second or None
