"""What a policy makes of a request: who answers, and against which limits."""

from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import (
    ACME_KEY,
    CHAT,
    MESSAGES,
    NOW_MS,
    PROVIDER_KEY,
    head,
    policy,
)
from tests.prices import price
from tokenweir.core.admission import (
    Plan,
    Target,
    output_ceiling,
    output_nanousd,
    plan_metered,
    plan_unread,
    priced,
    unsatisfiable,
)
from tokenweir.core.cap import Cap
from tokenweir.core.caps import NO_CAP
from tokenweir.core.dialects.base import (
    Media,
    MediaKind,
    Message,
    ModelRequest,
    Prompt,
)
from tokenweir.core.downgrade import Attempt
from tokenweir.core.hold import Amounts, Limit, Part
from tokenweir.core.identify import Caller, Entry, entry_of
from tokenweir.core.partition import shared_tag_of, tag_of, user_code
from tokenweir.core.policy import (
    EVERY_PATH,
    ApiKey,
    Axis,
    Budget,
    Model,
    OnLedgerFailure,
    Policy,
    Quota,
    Tenant,
)
from tokenweir.core.price import ModelPrice, PriceList, Rate, Rates, TokenClass
from tokenweir.core.rejection import (
    Malformed,
    ModelNotAllowed,
    ModelUnpriced,
    PathNotMetered,
    Unsatisfiable,
)
from tokenweir.core.window import Calendar, Per

POLICY = policy()
EVERYTHING = (EVERY_PATH,)
MODEL = Model("m", "openai", max_output_tokens=1_000, default_output_tokens=400)
ENTRY = entry_of(head("POST", CHAT))
MESSAGES_ENTRY = entry_of(head("POST", MESSAGES))
CLOSED, OPEN = OnLedgerFailure.CLOSED, OnLedgerFailure.OPEN
BOUNDED = OnLedgerFailure.BOUNDED


def request(
    model: str = "gpt-4o-mini",
    output_cap: int | None = None,
    choices: int = 1,
    user: str = "",
) -> ModelRequest:
    """Return what a dialect has read."""
    return ModelRequest(
        model,
        stream=False,
        output_cap=output_cap,
        choices=choices,
        user=user,
        wants_usage=True,
        prompt=Prompt(),
    )


K = ApiKey("k", "acme")


def caller(
    *quotas: Quota, models: tuple[str, ...] = (), key_models: tuple[str, ...] = ()
) -> Caller:
    """Return a caller of a tenant with *quotas*."""
    key = ApiKey("acme-ci", "acme", key_models)
    return Caller(Tenant("acme", quotas, models), key)


def quota(axis: Axis = Axis.TOKENS, **changes: object) -> Quota:
    """Return a quota of 1,000, with *changes*."""
    return replace(Quota(f"acme.{axis}", axis, 1_000, 1_000), **changes)  # type: ignore[arg-type]


def attempted(
    by: Policy, who: Caller, entry: Entry, what: ModelRequest
) -> Plan | ModelNotAllowed | Malformed:
    """Return what the first attempt is planned to be."""
    return plan_metered(by, who, entry, what, Attempt(what.model), NOW_MS)


def planned(
    who: Caller,
    what: ModelRequest | None = None,
    entry: Entry = ENTRY,
    by: Policy = POLICY,
) -> Plan:
    """Return the plan for a request that is not turned away."""
    plan = attempted(by, who, entry, what or request())
    assert isinstance(plan, Plan)
    return plan


def limits_of(plan: Plan) -> list[str]:
    """Return the ids of the limits that apply."""
    return [limit.quota for part in plan.parts for limit in part.limits]


def held_against(
    *limits: Limit, model: Model = MODEL, yielding: frozenset[str] = frozenset()
) -> Plan:
    """Return a plan with *limits* under one tag."""
    plan = planned(caller())
    return replace(
        plan,
        target=replace(plan.target, model=model),
        parts=(Part("tw:000", limits),),
        yielding=yielding,
    )


def limit(axis: Axis, capacity: int, *, shadow: bool = False) -> Limit:
    """Return a limit of *capacity*."""
    return Limit(f"acme.{axis}", axis, "tenant=acme", 60, capacity, shadow)


# === which model, and may it be called ============================================


def test_target_and_subject() -> None:
    """A plan says who answers, and who asks whom for what."""
    plan = planned(caller(), request(user="ann"))

    assert plan.target == Target(
        POLICY.providers["openai"], POLICY.models["gpt-4o-mini"], "gpt-4o-mini"
    )
    subject = plan.subject
    assert (subject.tenant, subject.key_id, subject.user) == ("acme", "acme-ci", "ann")
    assert (subject.route, subject.provider) == ("chat_completions", "openai")
    assert subject.model == "gpt-4o-mini"


@pytest.mark.parametrize("model", ["gpt-9", "", "gpt-4o-mini ", "*", "local"])
def test_unknown_model(model: str) -> None:
    """A model that the policy does not have is not forwarded."""
    found = attempted(POLICY, caller(), ENTRY, request(model))

    assert found == ModelNotAllowed(model)


@pytest.mark.parametrize(
    ("tenant_may", "key_may", "allowed"),
    [
        ((), (), True),
        (("gpt-4o-mini",), (), True),
        (("gpt-*",), ("gpt-4*",), True),
        (("fast",), (), False),
        ((), ("fast",), False),
        (("gpt-*",), ("fast",), False),
        (("fast",), ("gpt-*",), False),
    ],
)
def test_allowed_models(
    tenant_may: tuple[str, ...], key_may: tuple[str, ...], allowed: bool
) -> None:
    """Tenant and key must both allow a model; who lists none allows all."""
    who = caller(models=tenant_may, key_models=key_may)
    found = attempted(POLICY, who, ENTRY, request())

    assert isinstance(found, Plan) is allowed
    assert allowed or found == ModelNotAllowed("gpt-4o-mini")


def test_family() -> None:
    """A name of a family is answered by the family, under the name of the app."""
    plan = planned(caller(), request("local-large-7"))

    assert plan.target.model is not None
    assert plan.target.model.name == "local-large-*"
    assert plan.subject.model == "local-large-7"


@pytest.mark.parametrize(
    ("model", "entry"), [("claude", ENTRY), ("gpt-4o-mini", MESSAGES_ENTRY)]
)
def test_wrong_dialect(model: str, entry: Entry) -> None:
    """A model whose provider speaks the other API is told so, not sent there."""
    found = attempted(POLICY, caller(), entry, request(model))

    assert isinstance(found, Malformed)
    assert found.param == "model"


# === which quotas =================================================================


@pytest.mark.parametrize(
    ("models", "applies"),
    [((), True), (("gpt-4o-mini",), True), (("gpt-*",), True), (("fast",), False)],
)
def test_quota_for_models(models: tuple[str, ...], applies: bool) -> None:
    """A quota for some models applies to those."""
    plan = planned(caller(quota(models=models)))

    assert bool(limits_of(plan)) is applies


@pytest.mark.parametrize(
    ("routes", "applies"),
    [((), True), (("messages", "chat_completions"), True), (("messages",), False)],
)
def test_quota_for_routes(routes: tuple[str, ...], applies: bool) -> None:
    """A quota for some routes applies to those."""
    plan = planned(caller(quota(routes=routes)))

    assert bool(limits_of(plan)) is applies


def test_every_axis_applies_to_a_metered_request() -> None:
    """A model call is held against limits of every axis, shadow ones too."""
    quotas = [quota(axis) for axis in Axis]
    shadow = quota(id="acme.shadow", shadow=True)
    plan = planned(caller(*quotas, shadow))

    assert limits_of(plan) == [*(entry.id for entry in quotas), "acme.shadow"]
    assert plan.parts[0].limits[-1].shadow


def test_only_requests_and_slots_without_a_prompt() -> None:
    """What nobody reads is held against no token limit: it would be a guess."""
    who = caller(*(quota(axis) for axis in Axis))
    plan = plan_unread(POLICY, who, entry_of(head("GET", "/v1/models")))

    assert isinstance(plan, Plan)
    assert limits_of(plan) == [
        "acme.requests_per_minute",
        "acme.concurrency",
    ]


def test_limits_are_told_as_in_the_policy() -> None:
    """A limit has the quota's figures, and the partition that it applies to."""
    plan = planned(caller(quota(rate=60, capacity=600)))

    assert plan.parts == (
        Part(
            tag_of("acme"),
            (
                Limit(
                    "acme.tokens_per_minute", Axis.TOKENS, "tenant=acme", 60, 600, False
                ),
            ),
        ),
    )


# === whose ========================================================================


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (("tenant",), "tenant=acme"),
        (("tenant", "key"), "tenant=acme,key=acme-ci"),
        (("tenant", "user"), f"tenant=acme,user={user_code('acme', 'ann')}"),
        (("tenant", "route", "model"), "tenant=acme,route=chat_completions,model=fast"),
        (("tenant", "provider"), "tenant=acme,provider=openai"),
    ],
)
def test_partition(partition: tuple[str, ...], expected: str) -> None:
    """A partition is written from what the quota is kept apart by, in order."""
    plan = planned(caller(quota(partition=partition)), request("fast", user="ann"))

    assert plan.parts[0].limits[0].partition == expected


def test_no_user() -> None:
    """Requests that name no user share one partition, instead of having none."""
    plan = planned(caller(quota(partition=("tenant", "user"))))

    assert plan.parts[0].limits[0].partition == "tenant=acme,user=-"


def test_user_stays_inside_the_tenant() -> None:
    """Whatever user a body names, the limit stays the tenant's own."""
    by_user = quota(partition=("tenant", "user"))
    victims = ["victim", "tenant=open", "x,tenant=open", "{tw:001}", "\n", "-"]
    plans = [planned(caller(by_user), request(user=victim)) for victim in victims]

    for plan in plans:
        assert [part.tag for part in plan.parts] == [tag_of("acme")]
        code = user_code("acme", plan.subject.user)
        assert plan.parts[0].limits[0].partition == f"tenant=acme,user={code}"
        assert plan.subject.tenant == "acme"


def test_family_is_one_partition() -> None:
    """Under a family, apps choose the names, but not their limits by that."""
    by_model = quota(partition=("tenant", "model"))
    names = ["local-a", "local-b"]
    plans = [planned(caller(by_model), request(name)) for name in names]

    assert {plan.parts for plan in plans} == {plans[0].parts}
    assert plans[0].parts[0].limits[0].partition == "tenant=acme,model=local-*"


def test_no_model() -> None:
    """A request without a model is no model's."""
    by_model = quota(Axis.REQUESTS, partition=("tenant", "model"))
    plan = plan_unread(POLICY, caller(by_model), entry_of(head("GET", "/v1/models")))

    assert isinstance(plan, Plan)
    assert plan.parts[0].limits[0].partition == "tenant=acme,model=-"


def test_own_tag_without_limits() -> None:
    """The tenant's tag is there also without limits: it keeps the usage records."""
    assert planned(caller()).parts == (Part(tag_of("acme"), ()),)


def test_tags() -> None:
    """The tenant's tag comes first, with all of its limits; shared ones follow."""
    shared = quota(id="*.by_provider", partition=("provider",))
    own = quota(id="acme.own")
    more = quota(id="acme.more", partition=("tenant", "provider"))
    slots = quota(Axis.CONCURRENCY, id="*.slots", partition=("provider",))
    plan = planned(caller(shared, own, slots, more))

    assert [part.tag for part in plan.parts] == [
        tag_of("acme"),
        shared_tag_of("*.by_provider", "provider=openai"),
        shared_tag_of("*.slots", "provider=openai"),
    ]
    assert [[entry.quota for entry in part.limits] for part in plan.parts] == [
        ["acme.own", "acme.more"],
        ["*.by_provider"],
        ["*.slots"],
    ]


def test_shared_tags_are_shared() -> None:
    """Tenants meet under a quota's tag, and nowhere else."""
    shared = quota(id="*.by_provider", partition=("provider",))
    plans = [
        planned(Caller(Tenant(name, (shared,)), ApiKey("k", name)))
        for name in ("acme", "other")
    ]

    assert plans[0].parts[0] != plans[1].parts[0]
    assert plans[0].parts[1] == plans[1].parts[1]


def test_a_keys_own_quotas() -> None:
    """A key's own limits hold besides its tenant's, under the tenant's tag."""
    own = quota(id="acme/ci.own", partition=("tenant", "key"), models=("fast",))
    key = ApiKey("ci", "acme", quotas=(own, replace(own, id="acme/ci.any", models=())))
    plan = planned(Caller(Tenant("acme", (quota(),)), key))

    [part] = plan.parts
    assert [(limit.quota, limit.partition) for limit in part.limits] == [
        ("acme/ci.any", "tenant=acme,key=ci"),
        ("acme.tokens_per_minute", "tenant=acme"),
    ]


# === when the ledger is silent ====================================================


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((), OPEN),
        ((OPEN,), OPEN),
        ((CLOSED,), CLOSED),
        ((OPEN, OPEN), OPEN),
        ((OPEN, CLOSED), CLOSED),
        ((CLOSED, OPEN), CLOSED),
        ((OPEN, BOUNDED), BOUNDED),
        ((BOUNDED, CLOSED), CLOSED),
    ],
)
def test_on_ledger_failure(
    modes: tuple[OnLedgerFailure, ...], expected: OnLedgerFailure
) -> None:
    """One quota that must hold is enough; without quotas the tenant's word counts."""
    quotas = tuple(
        quota(id=f"acme.{number}", on_ledger_failure=mode)
        for number, mode in enumerate(modes)
    )
    who = Caller(Tenant("acme", quotas, on_ledger_failure=OPEN), K)

    assert planned(who).on_ledger_failure is expected


def test_shadow_does_not_close() -> None:
    """A quota in shadow mode refuses nobody, also not by the ledger's silence."""
    shadow = quota(id="acme.shadow", shadow=True, on_ledger_failure=CLOSED)
    who = Caller(Tenant("acme", (shadow, quota(on_ledger_failure=OPEN))), K)

    assert planned(who).on_ledger_failure is OPEN


def test_quotas_that_do_not_apply_have_no_say() -> None:
    """A quota for other models does not close what it does not limit."""
    other = quota(models=("fast",), on_ledger_failure=CLOSED)
    who = Caller(Tenant("acme", (other,), on_ledger_failure=OPEN), K)

    assert planned(who).on_ledger_failure is OPEN


# === paths that nobody reads ======================================================


@pytest.mark.parametrize(
    ("headers", "provider"),
    [((), "openai"), ((("anthropic-version", "2023-06-01"),), "anthropic")],
)
def test_default_provider(headers: tuple[tuple[str, str], ...], provider: str) -> None:
    """A request without a model goes to the default provider of its dialect."""
    entry = entry_of(head("GET", "/v1/models", headers=headers))
    plan = plan_unread(POLICY, caller(), entry)

    assert isinstance(plan, Plan)
    assert plan.target == Target(POLICY.providers[provider])
    assert plan.subject.model == ""


def policy_of(**opaque_paths: tuple[str, ...]) -> Policy:
    """Return the policy with only these providers, which let those paths pass."""
    providers = {
        name: replace(POLICY.providers[name], opaque_paths=paths)
        for name, paths in opaque_paths.items()
    }
    names = {each.dialect: each.name for each in reversed(providers.values())}
    return replace(POLICY, providers=providers, default_providers=names)


def asked(policy: Policy, method: str, path: str, *, version: bool = False) -> str:
    """Return which provider a request goes to, ``""`` if it is refused."""
    headers = (("anthropic-version", "2023-06-01"),) if version else ()
    entry = entry_of(head(method, path, headers=headers))
    found = plan_unread(policy, caller(), entry)
    if isinstance(found, Plan):
        return found.target.provider.name
    assert found == PathNotMetered(path)
    return ""


@pytest.mark.parametrize("version", [False, True])
def test_the_only_provider(version: bool) -> None:
    """If nobody speaks the caller's dialect, whoever there is is asked."""
    only = policy_of(anthropic=())
    opaque = policy_of(anthropic=EVERYTHING)

    assert asked(only, "GET", "/v1/models", version=version) == "anthropic"
    assert asked(only, "POST", "/v1/files", version=version) == ""
    assert asked(opaque, "POST", "/v1/files", version=version) == "anthropic"
    assert asked(opaque, "DELETE", "/v1/files/f", version=version) == "anthropic"


def test_no_provider() -> None:
    """Without any provider there is nowhere to go."""
    assert asked(policy_of(), "GET", "/v1/models") == ""


@pytest.mark.parametrize(
    ("method", "path", "version", "provider"),
    [
        # own takes everything; openai, the default, takes nothing but models
        ("GET", "/v1/models", False, "openai"),
        ("POST", "/v1/vector_stores", False, "own"),
        ("GET", "/v1/files", False, "own"),
        ("DELETE", "/v1/files/f", False, "own"),
        ("POST", "/v1/files", True, ""),
        ("POST", f"{MESSAGES}/batches", False, "anthropic"),
        ("GET", f"{MESSAGES}/batches/b", False, "anthropic"),
        ("DELETE", f"{MESSAGES}/batches/b", False, ""),
    ],
)
def test_each_provider_speaks_for_itself(
    method: str, path: str, version: bool, provider: str
) -> None:
    """
    What one provider lets pass goes to that provider, be it the default or not; never
    to one whose API the caller does not speak.
    """
    batches = (f"POST {MESSAGES}/batches", f"GET {MESSAGES}/batches/*")
    several = policy_of(openai=(), own=EVERYTHING, anthropic=batches)

    assert asked(several, method, path, version=version) == provider


def test_the_default_comes_first() -> None:
    """Where several let a path pass, the default provider gets it."""
    several = policy_of(own=EVERYTHING, openai=EVERYTHING)
    other = replace(several, default_providers={"openai": "openai"})

    assert asked(several, "POST", "/v1/files") == "own"
    assert asked(other, "POST", "/v1/files") == "openai"


@pytest.mark.parametrize("paths", [EVERYTHING, ()])
@pytest.mark.parametrize("method", ["POST", "PUT", "QUERY", "GET", "DELETE", "OPTIONS"])
def test_unknown_paths(method: str, paths: tuple[str, ...]) -> None:
    """A path that nobody can meter is refused, unless its provider lets it pass."""
    found = asked(policy_of(openai=paths), method, "/v1/organization/admin_api_keys")

    assert found == ("openai" if paths else "")


@pytest.mark.parametrize("paths", [EVERYTHING, (), ("POST /*", "PUT /*")])
@pytest.mark.parametrize(
    "path", [f"{CHAT}/", CHAT.upper(), f"{MESSAGES};x", f"{MESSAGES}/count_tokens/"]
)
def test_almost_a_metered_path(path: str, paths: tuple[str, ...]) -> None:
    """What some server could take for a metered path never passes unmetered."""
    everybody = policy_of(openai=paths, anthropic=paths)

    assert asked(everybody, "POST", path) == ""
    assert asked(everybody, "PUT", path) == ""


# === how much =====================================================================


@pytest.mark.parametrize(
    ("cap", "choices", "ceiling"),
    [
        (100, 1, 100),
        (1_000, 1, 1_000),
        (5_000, 1, 1_000),
        (100, 3, 300),
        (5_000, 3, 3_000),
        (0, 1, 0),
    ],
)
def test_ceiling_of_a_cap(cap: int, choices: int, ceiling: int) -> None:
    """The client's cap or the model's maximum, for each choice; no quota lowers it."""
    asked = request(output_cap=cap, choices=choices)
    small = held_against(limit(Axis.TOKENS, 50))

    assert output_ceiling(small, asked, 10) == ceiling


@pytest.mark.parametrize(
    ("limits", "choices", "input_tokens", "ceiling"),
    [
        ([], 1, 10, 400),
        ([], 3, 10, 1_200),
        ([limit(Axis.TOKENS, 300)], 1, 10, 290),
        ([limit(Axis.TOKENS, 5_000)], 1, 10, 400),
        ([limit(Axis.OUTPUT_TOKENS, 300)], 1, 10, 300),
        ([limit(Axis.INPUT_TOKENS, 5)], 1, 10, 400),
        ([limit(Axis.REQUESTS, 1), limit(Axis.CONCURRENCY, 1)], 1, 10, 400),
        ([limit(Axis.TOKENS, 300), limit(Axis.OUTPUT_TOKENS, 200)], 3, 10, 200),
        ([limit(Axis.TOKENS, 300, shadow=True)], 1, 10, 400),
        ([limit(Axis.TOKENS, 300)], 1, 299, 1),
        ([limit(Axis.TOKENS, 300)], 1, 300, 1),
        ([limit(Axis.TOKENS, 300)], 1, 9_000, 1),
    ],
)
def test_ceiling_of_the_default(
    limits: list[Limit], choices: int, input_tokens: int, ceiling: int
) -> None:
    """Without a cap: the policy's default, clamped to what enforced limits can hold."""
    asked = request(choices=choices)

    assert output_ceiling(held_against(*limits), asked, input_tokens) == ceiling


def test_default_above_the_maximum() -> None:
    """A default above what the model can generate is not reserved."""
    model = replace(MODEL, max_output_tokens=300)

    assert output_ceiling(held_against(model=model), request(), 10) == 300


axes = st.sampled_from([Axis.TOKENS, Axis.OUTPUT_TOKENS, Axis.REQUESTS])


@given(
    st.lists(st.builds(limit, axes, st.integers(1, 2_000), shadow=st.booleans())),
    st.integers(0, 2_000),
    st.integers(1, 4),
)
def test_default_is_never_what_makes_it_unsatisfiable(
    limits: list[Limit], input_tokens: int, choices: int
) -> None:
    """Whom the default would turn away is turned away with a single token, too."""
    held = held_against(*limits)
    ceiling = output_ceiling(held, request(choices=choices), input_tokens)
    never = unsatisfiable(held, Amounts(1, input_tokens, ceiling))

    assert ceiling >= 1
    assert (never is None) == (unsatisfiable(held, Amounts(1, input_tokens, 1)) is None)


@pytest.mark.parametrize(
    ("axis", "amounts", "requested"),
    [
        (Axis.TOKENS, Amounts(1, 60, 41), 101),
        (Axis.INPUT_TOKENS, Amounts(1, 101, 0), 101),
        (Axis.OUTPUT_TOKENS, Amounts(1, 0, 101), 101),
        (Axis.REQUESTS, Amounts(101, 0, 0), 101),
    ],
)
def test_unsatisfiable(axis: Axis, amounts: Amounts, requested: int) -> None:
    """What is above a limit's capacity will never fit: the limit says by how much."""
    held = held_against(limit(Axis.TOKENS, 10_000), limit(axis, 100))

    assert unsatisfiable(held, amounts) == Unsatisfiable(
        f"acme.{axis}", axis, "tenant=acme", 100, requested, rate=60
    )


@pytest.mark.parametrize(
    "limits",
    [
        (),
        (limit(Axis.TOKENS, 100),),
        (limit(Axis.INPUT_TOKENS, 60), limit(Axis.OUTPUT_TOKENS, 40)),
        (limit(Axis.CONCURRENCY, 1), limit(Axis.REQUESTS, 1)),
        (limit(Axis.TOKENS, 1, shadow=True),),
    ],
)
def test_satisfiable(limits: tuple[Limit, ...]) -> None:
    """What just fits into every enforced limit can be waited for."""
    assert unsatisfiable(held_against(*limits), Amounts(1, 60, 40)) is None


def test_secrets_are_not_in_plans() -> None:
    """A plan can be shown: neither the app's key nor the provider's is in it."""
    shown = repr(planned(caller(quota())))

    assert ACME_KEY not in shown
    assert PROVIDER_KEY not in shown


# === what it costs ================================================================

MONEY = limit(Axis.BUDGET_USD, 5_000)
TEN_AND_FIVE = Amounts(1, 10, 5)


def costly(*limits: Limit, by: ModelPrice | None) -> Plan:
    """Return a plan at that price."""
    return replace(held_against(*limits), price=by)


def test_the_worst_case_is_reserved() -> None:
    """At the dearest tier that may serve the request."""
    plan = costly(MONEY, by=price(2, 8, flex=True))
    flex = replace(request(), service_tier="flex")
    default = replace(request(), service_tier="default")

    for asked in (request(), flex, default):
        found = priced(plan, asked, TEN_AND_FIVE, NOW_MS)
        assert found == replace(TEN_AND_FIVE, cost_nanousd=60)


def test_without_a_price_money_is_not_spent() -> None:
    """Where a budget of money applies: refused. Elsewhere: not known (B06)."""
    tokens = limit(Axis.BUDGET_TOKENS, 5_000)
    shadow = limit(Axis.BUDGET_USD, 5_000, shadow=True)

    found = priced(costly(MONEY, by=None), request(), TEN_AND_FIVE, NOW_MS)
    assert found == ModelUnpriced("gpt-4o-mini", "model")
    for other in (tokens, shadow):
        plan = costly(other, by=None)
        assert priced(plan, request(), TEN_AND_FIVE, NOW_MS) == TEN_AND_FIVE


def test_a_tier_without_a_price_is_refused_by_its_name() -> None:
    """The default tier's price is not taken for another's (B09)."""
    asked = replace(request(), service_tier="priority")
    found = priced(costly(MONEY, by=price(2, 8)), asked, TEN_AND_FIVE, NOW_MS)

    assert found == ModelUnpriced("gpt-4o-mini", "priority")


def test_a_class_without_a_price_is_refused_by_its_name() -> None:
    """Half a price is none."""
    half = replace(price(2, 8), lists=(PriceList(Rates({})),))
    found = priced(costly(MONEY, by=half), request(), TEN_AND_FIVE, NOW_MS)

    assert found == ModelUnpriced("gpt-4o-mini", "cached_input_tokens")


def test_the_price_of_an_output_token() -> None:
    """Rounded down; without a price nobody knows."""
    half = replace(price(2, 8), lists=(PriceList(Rates({})),))

    assert output_nanousd(price(2, 8), NOW_MS) == 8
    assert output_nanousd(half, NOW_MS) == 0
    assert output_nanousd(None, NOW_MS) == 0


def test_budgets_clamp_the_default_too() -> None:
    """The default alone never makes a request unsatisfiable."""
    plan = held_against(limit(Axis.BUDGET_TOKENS, 300))

    assert output_ceiling(plan, request(), 10) == 290


@pytest.mark.parametrize(
    ("most", "output_tokens", "cost_nanousd"),
    [
        (5_000, 400, 20 + 400 * 8),
        (3_220, 400, 3_220),
        (3_219, 399, 3_212),
        (36, 2, 36),
        (28, 1, 28),
        (27, 1, 28),  # not even one token: that is unsatisfiable
    ],
)
def test_budgets_of_money_clamp_the_default_too(
    most: int, output_tokens: int, cost_nanousd: int
) -> None:
    """What nobody asked for is never what makes a request cost more than a budget."""
    tight = limit(Axis.BUDGET_USD, most)
    plan = costly(tight, limit(Axis.BUDGET_USD, 10, shadow=True), by=price(2, 8))
    found = priced(plan, request(), Amounts(1, 10, 400), NOW_MS)

    assert found == Amounts(1, 10, output_tokens, cost_nanousd)
    assert isinstance(found, Amounts)
    assert (unsatisfiable(plan, found) is None) == (cost_nanousd <= most)


def test_a_cap_of_the_apps_is_never_clamped() -> None:
    """What it asks for costs what it costs: too much for a budget is told."""
    plan = costly(limit(Axis.BUDGET_USD, 100), by=price(2, 8))
    found = priced(plan, request(output_cap=400), Amounts(1, 10, 400), NOW_MS)

    assert found == Amounts(1, 10, 400, 3_220)
    assert unsatisfiable(plan, found) is not None


def test_a_budget_that_yields_is_no_hard_end() -> None:
    """It downgrades or throttles from the first request on."""
    plan = held_against(MONEY, yielding=frozenset({MONEY.quota}))
    asked = Amounts(1, 10, 5, 5_001)

    assert unsatisfiable(plan, asked) is None
    assert unsatisfiable(replace(plan, yielding=frozenset()), asked) is not None


def test_sound_is_reserved_where_there_can_be_some() -> None:
    """It costs ten times what text does: not every request is to pay for that."""
    loud = replace(
        price(2, 8),
        lists=(
            PriceList(
                Rates(
                    {
                        TokenClass.INPUT: Rate(2_000),
                        TokenClass.OUTPUT: Rate(8_000),
                        TokenClass.AUDIO_INPUT: Rate(20_000),
                        TokenClass.AUDIO_OUTPUT: Rate(80_000),
                    }
                )
            ),
        ),
    )
    heard = Prompt((Message("user", media=(Media(MediaKind.AUDIO),)),))
    for asked, cost in (
        (request(), 60),
        (replace(request(), prompt=heard), 240),
        (replace(request(), speaks=True), 420),
    ):
        found = priced(costly(MONEY, by=loud), asked, TEN_AND_FIVE, NOW_MS)
        assert found == replace(TEN_AND_FIVE, cost_nanousd=cost)


def test_a_relaxed_budget_records_what_it_was_not_for() -> None:
    """A budget of one model pays for the cheaper one that answers in its place."""
    day = Budget(Calendar(Per.DAY, UTC))
    large = quota(
        Axis.BUDGET_TOKENS,
        models=("gpt-4o-mini",),
        partition=("tenant", "model"),
        budget=day,
    )
    attempt = Attempt("fast", 1, frozenset({large.id}))
    plan = plan_metered(POLICY, caller(large), ENTRY, request(), attempt, NOW_MS)
    assert isinstance(plan, Plan)
    [only] = plan.parts[0].limits

    assert (plan.target.name, plan.subject.downgraded_from) == ("fast", "gpt-4o-mini")
    assert only.partition == "tenant=acme,model=gpt-4o-mini"
    unspent = plan_metered(
        POLICY, caller(large), ENTRY, request("fast"), Attempt("fast"), NOW_MS
    )
    assert isinstance(unspent, Plan)
    assert unspent.parts[0].limits == ()


def test_no_cap_where_there_is_none() -> None:
    """A policy's cap is not written into a request that has no place for it."""
    capping = replace(POLICY, caps=(Cap(100, 100),))

    assert planned(caller(), request(output_cap=500), by=capping).cap.tokens == 100
    uncapped = replace(request(output_cap=500), can_be_capped=False)
    assert planned(caller(), uncapped, by=capping).cap == NO_CAP
