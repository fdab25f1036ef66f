"""
One processor: how it is put together, how it starts and how it stops.

It starts from the outside in and stops from the inside out: it takes exchanges only
once it could settle them, and leaves only when what passed is settled, or waits no
longer for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tokenweir.accesslog.service import AccessLogService
from tokenweir.admin.beside import Beside, Quiet
from tokenweir.admin.readiness import ReadinessProbe
from tokenweir.admin.server import AdminServer
from tokenweir.config.effect_check import EffectCheck
from tokenweir.core.policy import Model, Policy
from tokenweir.core.request_side import Arrival
from tokenweir.driver.background import Background
from tokenweir.driver.calibration import Calibration
from tokenweir.driver.handoff import Handoff
from tokenweir.driver.native import NativeDriver
from tokenweir.driver.prompt_audit import PromptAudit
from tokenweir.driver.services import Services
from tokenweir.driver.tally import Tally
from tokenweir.envoyconf.live_config import LiveConfig, following
from tokenweir.extproc.rendering import Rendering
from tokenweir.extproc.service import ExternalProcessor
from tokenweir.extproc.session import Sessions
from tokenweir.extproc.snapshots import Snapshots
from tokenweir.governance.source import PolicySource
from tokenweir.ledger.calibration import CalibrationLedger
from tokenweir.ledger.eviction import EvictionWatch
from tokenweir.ledger.leases import LeasedLedger
from tokenweir.ledger.prompts import PromptLedger
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.spool import SpooledLedger
from tokenweir.ledger.sweeper import Sweeper
from tokenweir.ledger.tagged import TaggedLedger
from tokenweir.processor.leaving import Step, leave, longest_seconds
from tokenweir.processor.settings import ServeSettings
from tokenweir.telemetry import libraries
from tokenweir.telemetry.estimates import EstimateMetrics
from tokenweir.telemetry.fanout import Fanout
from tokenweir.telemetry.leases import LeaseMetrics
from tokenweir.telemetry.logs import JsonLog, Level
from tokenweir.telemetry.metrics import Metrics
from tokenweir.telemetry.webhook import BudgetWebhook
from tokenweir.tokenizers.counter import TokenCounter, counted_with
from tokenweir.tokenizers.tokenize_server import TokenizeServers
from tokenweir.transport.choice import make_server

# How long streams that are still open may take: as long as one answer.
STOP_SECONDS = 2.0
# How long a stream of Envoy's access log may take, once nothing is expected from it.
LOG_SECONDS = 0.1
# How long what was settled last may wait for the ledger before this process ends.
FLUSH_SECONDS = 4.0
# How long a webhook may be tried once more before this process ends.
WEBHOOK_SECONDS = 1.0
DRAIN_POLL_SECONDS = 0.05


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Processor:
    """Everything that one process serves Envoy with."""

    def __init__(self, settings: ServeSettings, env: Mapping[str, str]) -> None:
        self._serving = False
        self._settings = settings
        self._metrics = Metrics()
        self._log = JsonLog(on_dropped=self._metrics.line_dropped)
        sinks = (self._log, self._metrics)
        self._webhook = BudgetWebhook(Fanout(sinks, self._metrics.sink_failed))
        self._tally = Tally(self._metrics.tally_lost, _now_ms)
        self._prompts = PromptAudit(self._metrics.prompts_lost, _now_ms)
        self._hooks = Fanout(
            sinks, self._metrics.sink_failed, self._webhook.tell, self._tally
        )
        self._effect = EffectCheck(self._hooks, _now_ms)
        self._estimates = EstimateMetrics(self._metrics.registry)
        self._tokenize = TokenizeServers(self._estimates.asked)
        self._counter = TokenCounter(on_fault=self._hooks.fault, servers=self._tokenize)
        self._store = RedisStore(
            settings.ledger_url,
            self._hooks,
            deadline_seconds=settings.ledger_timeout_seconds,
        )
        self._ledger = self._make_ledger()
        self._store.link.when_back(self._ledger.repeat)
        self._sweeper = Sweeper(self._store, self._hooks)
        self._eviction = EvictionWatch(self._store.eviction, self._hooks)
        self._follow_policy(env)
        self._tell_operators()
        self._background = Background(self._hooks)
        self._calibration = Calibration(
            self._counter,
            self._background,
            self._estimates.compared,
            self._estimates.learned,
        )
        self._counter.recall = self._calibration.recall
        self._handoff = Handoff(self._ledger, self._hooks, self._background)
        self._services = self._make_services()
        self._natives = NativeDriver(self._services)
        sessions = Sessions(self._services, self._handoff, self._arrival)
        self._server = make_server(
            settings.transport,
            (ExternalProcessor(sessions), AccessLogService(self._services)),
            settings.socket_path,
            self._hooks,
        )

    @property
    def policy(self) -> Policy:
        """The snapshot that new exchanges begin with; there is one once it serves."""
        policy = self._source.in_force.policy
        assert policy is not None
        return policy

    async def start(self, policy: Policy | None) -> None:
        """
        Serve. Raises: OSError, if a port or the socket can't be had. PolicyError, if
        the Envoy beside can't follow the policy.

        *policy* is the file's; None: wait until one is published.
        """
        libraries.capture(self._log.library)
        await self._admin.start()
        if policy is None:
            self._log.event("policy_awaited", admin_port=self._admin.port)
        await self._first_policy(policy)
        self._metrics.watch_holds(self._outstanding)
        await asyncio.to_thread(
            self._counter.preload,
            *counted_with(self.policy),
        )
        await asyncio.to_thread(self._open_prices)
        await self._sweeper.start()
        self._eviction.start()
        self._tally.start(self._store, self._hooks)
        self._prompts.start(PromptLedger(self._store.link), self._hooks)
        self._calibration.start(CalibrationLedger(self._store.link), self._hooks)
        self._webhook.start()
        await self._server.start()
        self._serving = True
        self._log.event(
            "serving",
            socket=str(self._settings.socket_path),
            admin_port=self._admin.port,
        )

    async def stop(self) -> None:
        """
        Take no new exchanges, let open ones end or settle them, and leave.

        However far `start` came.
        """
        self._readiness.draining = True
        self._log.event("draining")
        await leave(self._steps(), self._hung, self._hooks.fault)
        self._log.event("stopped")
        self._log.close()

    @property
    def longest_stop_seconds(self) -> float:
        """How long `stop` may take, whatever hangs."""
        return longest_seconds(self._steps())

    def reload(self) -> None:
        """Read the policy again now."""
        self._source.reload()

    # === the end ===============================================================

    def _steps(self) -> tuple[Step, ...]:
        """Return all that is to do at the end, in order."""
        drain_seconds = self._settings.drain_seconds
        return (
            Step("health", self._server.drain),
            Step("policy", self._source.stop),
            Step("envoy", self._live.stop),
            Step("effect_check", self._effect.stop),
            Step("exchanges", self._await_exchanges, drain_seconds),
            Step("streams", self._end_streams, STOP_SECONDS),
            Step(
                "background",
                partial(self._background.join, FLUSH_SECONDS),
                FLUSH_SECONDS,
            ),
            Step("tally", self._tally.stop),
            Step("prompts", self._prompts.stop),
            Step("calibration", self._calibration.stop),
            Step("sweeper", self._sweeper.stop),
            Step("eviction", self._eviction.stop),
            Step("spool", partial(self._ledger.flush, FLUSH_SECONDS), FLUSH_SECONDS),
            Step("ledger", self._ledger.close),
            Step(
                "webhook", partial(self._webhook.stop, WEBHOOK_SECONDS), WEBHOOK_SECONDS
            ),
            Step("counting", self._end_counting),
            Step("admin", self._admin.stop),
        )

    async def _end_streams(self) -> None:
        open_ones = tuple(self._services.responding)
        for exchange in open_ones:
            exchange.drain()
        self._natives.drain()
        # Envoy's access log keeps its stream for as long as it is let.
        is_busy = bool(open_ones or self._services.admitting)
        await self._server.stop(STOP_SECONDS if is_busy else LOG_SECONDS)

    async def _end_counting(self) -> None:
        self._counter.close()
        await self._tokenize.close()

    def _hung(self, step: str, seconds: float) -> None:
        self._log.event("stop_hung", Level.ERROR, step=step, seconds=round(seconds, 1))

    async def _await_exchanges(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.drain_seconds):
                # Polled: what is waited for changes with each exchange, and a drain
                # is rare.
                while self._in_flight() or self._services.admitting:  # noqa: ASYNC110
                    await asyncio.sleep(DRAIN_POLL_SECONDS)

    # === parts =================================================================

    def _is_silent(self) -> bool:
        return self._store.contact.unanswered > 0

    async def _first_policy(self, policy: Policy | None) -> None:
        if policy is not None:
            await self._live.prepare(policy)
        await self._source.first(policy)
        await self._live.begin(self.policy)
        self._live.start()

    def _follow_policy(self, env: Mapping[str, str]) -> None:
        self._live = LiveConfig(
            following(self._settings.envoy, self._settings.envoy_binary),
            self._envoy_updated,
            self._hooks.fault,
        )
        self._snapshots = Snapshots(time.monotonic)
        self._source = PolicySource(
            self._settings.policy,
            env,
            self._store.link,
            self._use_policy,
            self._hooks,
            prepare=self._live.prepare,
        )
        self._rendering = Rendering(
            lambda: self.policy, self._hooks, follows=self._live.follows
        )

    def _make_ledger(self) -> SpooledLedger:
        leases = LeaseMetrics(self._metrics.registry)
        leased = LeasedLedger(
            TaggedLedger(self._store), self._store, leases, is_silent=self._is_silent
        )
        leases.watch(leased.leased)
        return SpooledLedger(leased, self._hooks, lineage=self._store)

    def _make_services(self) -> Services:
        return Services(
            ledger=self._ledger,
            counter=self._counter,
            on_exchange_end=self._hooks,
            events=self._hooks,
            background=self._background,
            pricing=lambda: self.policy.pricing,
            prompts=self._prompts,
            lessons=self._calibration,
            now_ms=_now_ms,
        )

    def _tell_operators(self) -> None:
        self._readiness = ReadinessProbe(
            self._ready_policy,
            self._ledger.ping,
            lambda: self._store.contact,
            stale=lambda: self._rendering.stale,
        )
        self._admin = AdminServer(
            self._settings.admin_host,
            self._settings.admin_port,
            self._metrics.registry,
            self._readiness,
            self._source.described,
            self._beside(),
        )

    def _beside(self) -> Beside | None:
        """Return the Envoy that follows the policy, for those who can't ask it."""
        envoy = self._settings.envoy
        if envoy is None or envoy.admin_socket is None:
            return None
        quiet = Quiet(lambda: self._in_flight() + len(self._services.admitting))
        admin = Path(envoy.admin_socket)
        return Beside(admin, envoy.listen_host, envoy.listen_port, quiet)

    def _envoy_updated(self, outcome: str) -> None:
        self._metrics.envoy_updated(outcome)
        level = Level.INFO if outcome in ("applied", "absent") else Level.WARNING
        self._log.event("envoy_updated", level, outcome=outcome)

    def _open_prices(self) -> None:
        # The first price takes long: the list of all has to be opened.
        for model in self._models():
            self.policy.pricing.price(
                model.provider, model.upstream_model or model.name
            )

    def _models(self) -> tuple[Model, ...]:
        return (*self.policy.models.values(), *self.policy.model_families)

    def _use_policy(self, policy: Policy) -> None:
        self._metrics.use_policy(policy)
        self._tally.use_policy(policy)
        self._prompts.use_policy(policy)
        self._estimates.use_policy(policy)
        self._calibration.use_policy(policy)
        if self._serving:
            self._counter.preload_soon(*counted_with(policy))
        self._effect.use_policy(policy)
        self._webhook.use(policy.webhook)
        self._snapshots.use(policy)
        self._rendering.policy_changed()

    def _ready_policy(self) -> Policy | str:
        policy = self._source.in_force.policy
        if policy is None:
            return self._source.awaited()
        return policy if self._serving else "is loaded; the rest is being started"

    def _arrival(self, rendered: str) -> Arrival:
        hold_id = f"{self._store.epoch}-{_now_ms():x}-{secrets.token_hex(8)}"
        policy = self._snapshots.fit(rendered) if self._live.follows else self.policy
        # What an earlier policy decides is no news of Envoy: it has gone on since then.
        heard = self._rendering.hear(rendered) if policy is self.policy else None
        return Arrival(
            policy, hold_id, draining=self._readiness.draining, rendered=heard
        )

    def _in_flight(self) -> int:
        natives = self._services.natives.size
        return len(self._services.responding) + self._handoff.size + natives

    def _outstanding(self) -> int:
        return self._in_flight() + len(self._services.settling)
