"""
The policy in force: one from a file or the ledger, with the keys that were issued.

Whoever has a new part hands it in here; both are put together, handed on as one
snapshot, and told with where they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tokenweir.config.issued_keys import IssuedKeyEntry, merged
from tokenweir.core.policy import Policy
from tokenweir.telemetry.hooks import FROM_FILE, Events, Origin


@dataclass(frozen=True, slots=True)
class IssuedKeys:
    """
    Attributes:
        entries: The keys.
        version: As published.
        by: Who published them.
        published_at_ms: When.
    """

    entries: Sequence[IssuedKeyEntry]
    version: int
    by: str
    published_at_ms: int


@dataclass(slots=True)
class InForce:
    """
    What is in force.

    Attributes:
        use: Is given each new snapshot.
        events: Told of each.
        policy: The snapshot; None: there is none yet.
        origin: Where it comes from.
        ignored: Issued keys that do not count, and why.
    """

    use: Callable[[Policy], None]
    events: Events
    policy: Policy | None = None
    origin: Origin = FROM_FILE
    ignored: tuple[str, ...] = ()
    _base: Policy | None = None
    _keys: IssuedKeys | None = None
    _base_origin: Origin = field(default=FROM_FILE)

    def take_policy(self, policy: Policy, origin: Origin = FROM_FILE) -> None:
        """Let *policy* be in force from now on, with the keys that there are."""
        self._base, self._base_origin = policy, origin
        self._put_together()

    def take_keys(self, keys: IssuedKeys) -> None:
        """Let *keys* count from now on; without a policy, once there is one."""
        self._keys = keys
        self._put_together()

    def policy_loaded(self, digest: str) -> None:
        """Tell what is in force: a file was read again. See `Events`."""
        self.events.policy_loaded(digest, self.origin)

    def policy_refused(self, problems: tuple[str, ...]) -> None:
        """See `Events`."""
        self.events.policy_refused(problems)

    def fault(self, where: str, error: BaseException) -> None:
        """See `Events`."""
        self.events.fault(where, error)

    @property
    def base(self) -> Policy | None:
        """The policy without the keys that were issued; None: there is none yet."""
        return self._base

    @property
    def keys(self) -> IssuedKeys | None:
        """The keys that were issued, those that do not count too; None: none are known."""
        return self._keys

    def described(self) -> Mapping[str, object]:
        """Return what operators are shown; there is nothing secret in it."""
        if self.policy is None:
            return {"source": None}
        origin, keys = self.origin, self._keys
        shown: dict[str, object] = {
            "source": origin.source,
            "digest": self.policy.digest,
        }
        if origin.version:
            shown |= {
                "version": origin.version,
                "by": origin.by,
                "published_at": moment(origin.published_at_ms),
                "comment": origin.comment,
            }
        if keys is not None:
            shown["keys"] = {
                "version": keys.version,
                "by": keys.by,
                "published_at": moment(keys.published_at_ms),
                "count": len(keys.entries),
                "ignored": list(self.ignored),
            }
        return shown

    def _put_together(self) -> None:
        if self._base is None:
            return
        self.policy, self.ignored, version = self._base, (), 0
        if self._keys is not None:
            self.policy, self.ignored = merged(self._base, self._keys.entries)
            version = self._keys.version
        self.origin = replace(self._base_origin, keys_version=version)
        self.use(self.policy)


def moment(time_ms: int) -> str:
    """Return *time_ms* in RFC 3339, UTC; no date of a calendar: as a number."""
    try:
        found = datetime.fromtimestamp(time_ms // 1_000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return found.isoformat().replace("+00:00", "Z")
