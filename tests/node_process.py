"""A Node process that runs `tests/node/run.mjs`: SDKs as apps use them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Self

from tests.node_packages import FOLDER, node_packages

# A first call loads an SDK, on a machine that does other things as well.
PATIENCE_SECONDS = 120.0
_LONGEST_LINE_BYTES = 1024 * 1024


class NodeError(Exception):
    """
    What an app caught.

    Attributes:
        told: What the error says: ``name``, ``status``, ``body``, …
    """

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told['name']}: {told['message']}")
        self.told = told


@dataclass
class NodeProcess:
    """
    Attributes:
        options: What every task is given, such as where it calls.
    """

    options: dict[str, Any]
    _process: asyncio.subprocess.Process
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, **options: Any) -> AsyncIterator[Self]:
        """Start one whose tasks get *options*; skip where there is no Node."""
        program = await asyncio.to_thread(node_packages)
        process = await asyncio.create_subprocess_exec(
            program,
            str(FOLDER / "run.mjs"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE_BYTES,
        )
        try:
            yield cls(options, process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def run(self, kit: str, task: str, **options: Any) -> Any:
        """
        Return what *task* of *kit* tells.

        Raises: NodeError if it raised.
        """
        asked = {"kit": kit, "task": task, "options": self.options | options}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        async with self._turn, asyncio.timeout(PATIENCE_SECONDS):
            stdin.write(json.dumps(asked).encode() + b"\n")
            line = await stdout.readline()
        outcome = json.loads(line)
        if "error" in outcome:
            raise NodeError(outcome["error"])
        return outcome["told"]
