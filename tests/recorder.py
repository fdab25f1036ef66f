"""Notes what would be logged and measured."""

from collections.abc import Mapping

from tokenweir.core.budget import Crossing
from tokenweir.telemetry.hooks import FROM_FILE, Delivery, ExchangeDetails, Origin


class Recorder:
    """
    Is `OnExchangeEnd` and `Events`.

    Attributes:
        exchanges: That ended, in order.
        faults: Where they were, and what.
        stale: What Envoy was said not to be rendered from.
        ineffective: Digests of policies, and quotas that were said to have no effect.
    """

    def __init__(self) -> None:
        self.exchanges: list[ExchangeDetails] = []
        self.faults: list[tuple[str, BaseException]] = []
        self.stale: list[tuple[str, ...]] = []
        self.ineffective: list[tuple[str, dict[str, str]]] = []

    def __call__(self, details: ExchangeDetails) -> None:
        self.exchanges.append(details)

    def fault(self, where: str, error: BaseException) -> None:
        self.faults.append((where, error))

    def ledger_call(
        self, verb: str, seconds: float, *, failed: bool, reason: str = ""
    ) -> None:
        """Nobody asks for it."""

    def ledger_evicts(self, policy: str) -> None:
        """Nobody asks for it."""

    def holds_reaped(self, count: int) -> None:
        """Nobody asks for it."""

    def budget_crossed(self, crossing: Crossing) -> None:
        """Nobody asks for it."""

    def spool_size(self, waiting: int) -> None:
        """Nobody asks for it."""

    def envoy_rendering(self, stale: tuple[str, ...]) -> None:
        self.stale.append(stale)

    def quotas_ineffective(self, digest: str, found: Mapping[str, str]) -> None:
        self.ineffective.append((digest, dict(found)))

    def webhook(self, outcome: Delivery, waiting: int, reason: str = "") -> None:
        """Nobody asks for it."""

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        """Nobody asks for it."""

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """Nobody asks for it."""
