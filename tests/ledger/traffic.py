"""Exchanges of all kinds, admitted as the core admits them: for tests of audits."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from tests.examples import CHAT, head
from tests.examples import policy as example
from tests.ledger.builders import Clock
from tokenweir.core.admission import Plan, plan_metered
from tokenweir.core.dialects.base import ModelRequest, Prompt
from tokenweir.core.downgrade import Attempt, next_attempt, with_next_model
from tokenweir.core.hold import (
    Amounts,
    Denied,
    Granted,
    Hold,
    Outcome,
    Settlement,
    Stale,
)
from tokenweir.core.holding import REPLAY_MS
from tokenweir.core.identify import Caller, entry_of
from tokenweir.core.partition import all_tags
from tokenweir.core.policy import (
    ApiKey,
    Axis,
    Budget,
    Model,
    OnExceeded,
    Policy,
    Quota,
    Tenant,
)
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.core.window import Calendar, Per
from tokenweir.ledger.memory import MemoryStore
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

MODELS = ("gpt-4o", "gpt-4o-mini", "gpt-4o-2026", "fast", "claude")
USERS = ("", "ann", "bob", "x" * 300)
HOUR_MS = 3_600_000


def budget(
    name: str, axis: Axis, capacity: int, per: Per, zone: str, **changes: object
) -> Quota:
    """A budget; *changes* are of the quota, or of what follows once it is spent."""
    anchor = {key: changes.pop(key) for key in ("day", "hour") if key in changes}
    follows = {
        key: changes.pop(key)
        for key in ("on_exceeded", "downgrade_to", "hard_limit", "throttle_percent")
        if key in changes
    }
    calendar = Calendar(per, ZoneInfo(zone), **anchor)  # type: ignore[arg-type]
    made = Quota(name, axis, 0, capacity, budget=Budget(calendar, **follows))  # type: ignore[arg-type]
    return replace(made, **changes)  # type: ignore[arg-type]


EVERY = (
    budget(
        "*.usd_by_provider",
        Axis.BUDGET_USD,
        10**15,
        Per.WEEK,
        "America/New_York",
        partition=("provider",),
    ),
    budget(
        "*.tokens_by_model",
        Axis.BUDGET_TOKENS,
        300,
        Per.HOUR,
        "Asia/Kolkata",
        partition=("tenant", "model"),
        shadow=True,
    ),
)
ACME = (
    budget("acme.usd", Axis.BUDGET_USD, 10**15, Per.DAY, "Asia/Kolkata", hour=5),
    budget(
        "acme.down",
        Axis.BUDGET_USD,
        40_000,
        Per.DAY,
        "America/New_York",
        partition=("tenant", "model"),
        models=("gpt-4o*",),
        on_exceeded=OnExceeded.DOWNGRADE,
        downgrade_to=("fast", "claude"),
    ),
    budget(
        "acme.slow",
        Axis.BUDGET_TOKENS,
        2_000,
        Per.HOUR,
        "Australia/Lord_Howe",
        partition=("tenant", "user"),
        on_exceeded=OnExceeded.THROTTLE,
        throttle_percent=50,
    ),
    budget(
        "acme.month",
        Axis.BUDGET_TOKENS,
        10**12,
        Per.MONTH,
        "UTC",
        day=31,
        partition=("tenant", "key", "route"),
    ),
    Quota("acme.rate", Axis.TOKENS, 10**8, 10**8),
)
# More than one budget that may have sent an exchange down.
GLOBEX = (
    budget(
        "globex.one",
        Axis.BUDGET_USD,
        20_000,
        Per.DAY,
        "Asia/Tokyo",
        models=("gpt-4o",),
        on_exceeded=OnExceeded.DOWNGRADE,
        downgrade_to=("gpt-4o-mini",),
    ),
    budget(
        "globex.two",
        Axis.BUDGET_TOKENS,
        1_500,
        Per.HOUR,
        "UTC",
        partition=("tenant", "model"),
        on_exceeded=OnExceeded.DOWNGRADE,
        downgrade_to=("fast",),
        hard_limit=3_000,
    ),
)
KEYS_OWN = budget(
    "acme.ci.usd",
    Axis.BUDGET_USD,
    60_000,
    Per.DAY,
    "UTC",
    partition=("tenant", "key"),
)


def policy() -> Policy:
    """Two tenants with budgets of all kinds, and a key with one of its own."""
    base = example()
    models = (
        Model("gpt-4o", "openai"),
        Model("gpt-4o-mini", "openai"),
        Model("fast", "own", "gpt-4o-mini"),
        Model("claude", "own"),
    )
    return replace(
        base,
        models={model.name: model for model in models},
        model_families=(Model("gpt-4o*", "own"),),
        tenants={
            "acme": Tenant("acme", ACME + EVERY),
            "globex": Tenant("globex", GLOBEX + EVERY),
        },
        keys={
            "0": ApiKey("ci", "acme", quotas=(KEYS_OWN,)),
            "1": ApiKey("dev", "acme"),
            "2": ApiKey("g", "globex"),
        },
    )


@dataclass
class Traffic:
    """
    Exchanges that begin and end at random.

    Attributes:
        store: Where they are held.
        clock: What time it is.
        dice: Decides.
        policy: That they are admitted by.
        running: Those that nobody has settled.
        downgrades: Whether spent budgets may send exchanges down.
        counts: How many began, were downgraded, ….
    """

    store: MemoryStore | RedisStore
    clock: Clock
    dice: random.Random
    policy: Policy = field(default_factory=policy)
    running: list[Hold] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    downgrades: bool = True

    def __post_init__(self) -> None:
        self.ledger = TaggedLedger(self.store)

    async def go(self, steps: int, *, most_ms: int = 60_000) -> None:
        """Do *steps* things, up to *most_ms* apart; now and then a few hours pass."""
        for _ in range(steps):
            self.clock.now_ms += self.dice.randrange(most_ms)
            self.running = [hold for hold in self.running if self._is_young(hold)]
            do = self.dice.choice(
                (self.begin, self.begin, self.begin, self.end, self.end, self.other)
            )
            await do()
            if self.dice.random() < 0.04:
                while self.running:
                    await self.end()
                self.clock.now_ms += self.dice.randrange(4 * HOUR_MS)

    def _is_young(self, hold: Hold) -> bool:
        # What ends later is recorded, and charged to nobody: see `holding.REPLAY_MS`.
        made_ms = int(hold.id.split("-")[1], 16)
        return self.clock.now_ms - made_ms < REPLAY_MS - 60_000

    async def begin(self) -> None:
        """Ask for something."""
        key = self.dice.choice(tuple(self.policy.keys.values()))
        caller = Caller(self.policy.tenants[key.tenant], key)
        request = ModelRequest(
            self.dice.choice(MODELS),
            stream=False,
            output_cap=None,
            choices=1,
            user=self.dice.choice(USERS),
            wants_usage=True,
            prompt=Prompt(),
        )
        hold = await self._admitted(caller, request)
        if hold is not None:
            self.running.append(hold)
            self._count("began")
            self._count("downgraded" if hold.subject.downgraded_from else "plain")

    async def _admitted(self, caller: Caller, request: ModelRequest) -> Hold | None:
        entry = entry_of(head("POST", CHAT))
        quotas = {quota.id: quota for quota in caller.quotas}
        attempt: Attempt | None = Attempt(request.model)
        amounts = Amounts(1, self.dice.randrange(200), self.dice.randrange(200), 9_000)
        name = (
            f"{await self.ledger.epoch()}-{self.clock.now_ms:x}-{self._count('tried')}"
        )
        while attempt is not None:
            # What was asked for by a stranger's clock may be a window off.
            now_ms = self.clock.now_ms + self.dice.choice((0, 0, 0, -2_000, 2_000))
            plan = plan_metered(self.policy, caller, entry, request, attempt, now_ms)
            if not isinstance(plan, Plan):
                attempt = with_next_model(attempt)
                continue
            hold = Hold(
                f"{name}.{attempt.number}.{attempt.model}",
                plan.parts,
                amounts,
                replace(plan.subject, policy=self.policy.digest),
                20,
            )
            answer = await self.ledger.reserve(hold)
            if isinstance(answer, Granted):
                return hold
            assert not isinstance(answer, Stale)
            assert isinstance(answer, Denied)
            attempt = next_attempt(attempt, answer.failures, quotas)
            if not self.downgrades:
                break
        self._count("refused")
        return None

    async def end(self) -> None:
        """Settle or cancel one of those that run."""
        if not self.running:
            return
        hold = self.running.pop(self.dice.randrange(len(self.running)))
        if self.dice.random() < 0.1:
            await self.ledger.cancel(hold)
            return
        await self.settle(hold)
        if self.dice.random() < 0.1:
            await self.settle(hold)

    async def settle(self, hold: Hold) -> None:
        """Settle it for something."""
        usage = TokenUsage(
            input_tokens=self.dice.randrange(200),
            cached_input_tokens=self.dice.randrange(20),
            output_tokens=self.dice.randrange(300),
            reasoning_tokens=self.dice.randrange(50),
        )
        settlement = Settlement(
            usage,
            Source.REPORTED,
            Outcome.COMPLETED,
            cost_nanousd=self.dice.randrange(12_000),
        )
        await self.ledger.settle(hold, settlement)

    async def other(self) -> None:
        """Renew one, or let the reaper come; whoever it took may still end."""
        if self.running and self.dice.random() < 0.7:
            await self.ledger.extend(self.dice.choice(self.running), 250)
            return
        if self.dice.random() < 0.5:
            await self.store.sweep(all_tags())

    def _count(self, what: str) -> int:
        self.counts[what] = self.counts.get(what, 0) + 1
        return self.counts[what]
