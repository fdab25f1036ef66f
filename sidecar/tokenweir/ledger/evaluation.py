"""One call of a script, as it is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import hiredis

from tokenweir.ledger import keys as ledger_keys
from tokenweir.ledger.scripts import Script
from tokenweir.ledger.wire import Argument

Command = Sequence[Argument]
# It takes a tuple of any length, and says of one.
_pack: Callable[[tuple[str | int | bytes, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    One call of a script.

    Attributes:
        script: Out of `tokenweir.ledger.scripts`.
        key: KEYS[1].
        arguments: ARGV.
        seconds: Until its deadline.
        began: By `time.perf_counter`.
        made: By `time.monotonic`.
    """

    script: Script
    key: str
    arguments: Command
    seconds: float
    began: float = field(default_factory=time.perf_counter)
    made: float = field(default_factory=time.monotonic)

    @property
    def command(self) -> list[str | bytes]:
        """What is sent if the server knows the script, in its parts."""
        script, rest = self.script, packed([*self._keys, *self.arguments])
        return ["EVALSHA", script.sha, str(len(self._keys)), *rest]

    def by_name(self) -> bytes:
        """Return the same, packed."""
        return self._pack("EVALSHA", self.script.sha)

    def in_full(self) -> bytes:
        """Return what is sent if it does not."""
        return self._pack("EVAL", self.script.source)

    @property
    def _keys(self) -> Sequence[str]:
        if self.script.is_rooted:
            return (self.key, ledger_keys.guard(self.key))
        return (self.key,)

    def _pack(self, verb: str, name: str) -> bytes:
        keys = self._keys
        parts = (verb, name, len(keys), *keys, *self.arguments)
        try:
            return _pack(parts)
        except UnicodeEncodeError:
            return _pack(tuple(packed(parts)))


def packed(command: Command) -> list[bytes]:
    """Return *command* as bytes: text out of a request need not be valid Unicode."""
    return [str(argument).encode("utf-8", "replace") for argument in command]
