"""Notes what operators are told."""

from __future__ import annotations

from tests.recorder import Recorder
from tokenweir.core.policy import Policy
from tokenweir.telemetry.hooks import FROM_FILE, Origin


class Told(Recorder):
    """
    Is `Events`, and takes snapshots.

    Attributes:
        loaded: Digest and origin of each policy that was told.
        refused: What was wrong with others, line by line.
        policies: Snapshots that were handed on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[tuple[str, Origin]] = []
        self.refused: list[str] = []
        self.policies: list[Policy] = []

    def use(self, policy: Policy) -> None:
        """Take a snapshot."""
        self.policies.append(policy)

    def policy_loaded(self, digest: str, origin: Origin = FROM_FILE) -> None:
        """See `Events`."""
        self.loaded.append((digest, origin))

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """See `Events`."""
        self.refused += problems
