"""
A stack from its start to its end.

SIGINT, SIGTERM and SIGHUP end it in order; a second one ends it at once. So does a
child that can't be kept alive, and a terminal that has gone.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tokenweir.config.advice import advise
from tokenweir.config.load import load_policy
from tokenweir.core.policy import Policy
from tokenweir.ending import end_tasks
from tokenweir.stack.announcement import announced, announcement_of
from tokenweir.stack.blueprint import Blueprint
from tokenweir.stack.demo import demo_policy
from tokenweir.stack.failure import NobodyCanCallError, PortsTakenError
from tokenweir.stack.feed import Feed
from tokenweir.stack.folder import StateFolder
from tokenweir.stack.given_ledger import require_ledger
from tokenweir.stack.log_file import LogFile
from tokenweir.stack.ports import LAST_PORT, free_port, require_ports
from tokenweir.stack.programs import find_programs
from tokenweir.stack.settings import StackSettings
from tokenweir.stack.supervisor import Supervisor
from tokenweir.stack.terminal import Style, Terminal
from tokenweir.stack.welcome import Welcome


@dataclass(frozen=True, slots=True)
class LocalStack:
    """
    Attributes:
        settings: What the user asked for.
        env: The user's environment.
        terminal: Where to tell what happens.
        command: How to call `tokenweir` in another terminal.
    """

    settings: StackSettings
    env: Mapping[str, str]
    terminal: Terminal
    command: str = "tokenweir"

    def run(self) -> None:
        """
        Run until a signal ends it.

        Raises:
            StackError: It can't be run, or could not be kept running.
            PolicyError: Of the policy.
            OSError: A file can't be written.
        """
        asyncio.run(self._run())

    async def _run(self) -> None:
        # First of all: from here on a signal leaves nothing behind.
        stop, hurry = asyncio.Event(), asyncio.Event()
        _on_signals(stop, hurry)
        programs = find_programs(self.settings)
        require_ports(self._ports(), _ports_of_others())
        if self.settings.ledger_url is not None:
            await require_ledger(self.settings.ledger_url)
        with StateFolder(self.settings.log_dir) as folder:
            mock_port = free_port() if self.settings.policy is None else None
            blueprint = Blueprint(
                self.settings,
                programs,
                folder,
                self._policy_file(folder, mock_port),
                self.env,
                mock_port,
            )
            await self._supervise(blueprint, stop, hurry)

    def _ports(self) -> dict[int, str]:
        admin_ports, workers = self.settings.admin_ports, self.settings.workers
        if admin_ports[-1] > LAST_PORT:
            raise PortsTakenError(
                f"{workers} workers need the ports {admin_ports[0]} to "
                f"{admin_ports[-1]}, and {LAST_PORT} is the last one there is. Choose "
                f"others: --admin-port {LAST_PORT - workers + 1} at most."
            )
        ports = dict.fromkeys(admin_ports, "--admin-port")
        if self.settings.port in ports:
            raise PortsTakenError(
                f"Port {self.settings.port} can't be both: apps' (--port) and a "
                "worker's (--admin-port; each worker has one). Choose another for one."
            )
        return {**ports, self.settings.port: "--port"}

    def _policy_file(self, folder: StateFolder, mock_port: int | None) -> Path:
        if self.settings.policy is not None:
            return self.settings.policy.absolute()
        assert mock_port is not None
        folder.policy.write_text(demo_policy(mock_port))
        return folder.policy

    def _require_callers(self, policy: Policy) -> None:
        """Raises: NobodyCanCallError."""
        if policy.keys or policy.single_tenant is not None:
            return
        tenant = next(iter(policy.tenants))
        raise NobodyCanCallError(
            f"{self.settings.policy}: no tenant has a key, so nobody can call. "
            f"`{self.command} keys new --id ID --tenant {tenant}` makes one and its "
            "entry; or set single_tenant."
        )

    async def _supervise(
        self, blueprint: Blueprint, stop: asyncio.Event, hurry: asyncio.Event
    ) -> None:
        policy = load_policy(blueprint.policy, self.env)
        self._require_callers(policy)
        supervisor = Supervisor(blueprint.tiers(), self._report, hurry)
        logs = [child.log for child in supervisor.children]
        logs.append(LogFile(blueprint.access_log))
        feed = Feed(logs, self.terminal)
        try:
            welcome = Welcome(blueprint, policy, self.command)
            await _until(stop, self._live(supervisor, feed, welcome))
        finally:
            if stop.is_set():
                self.terminal.say("\nStopping. Ctrl-C again: at once.", Style.NOTE)
            await supervisor.stop()
            feed.tell()
        self.terminal.say("Stopped.", Style.NOTE)

    async def _live(self, supervisor: Supervisor, feed: Feed, welcome: Welcome) -> None:
        """Return once the terminal has gone. Raises: ChildFailedError."""
        names = ", ".join(child.spec.name for child in supervisor.children)
        self.terminal.say(f"Starting {names} …", Style.NOTE)
        await supervisor.start()
        announcement_of(welcome.blueprint).write(welcome.blueprint.folder)
        if self.settings.policy is not None:
            for warning in advise(welcome.policy):
                self.terminal.say(f"Warning: {warning}", Style.WARNING)
        self.terminal.say(f"\n{welcome.text()}")
        self.terminal.say("\nEach exchange, as it ends. Ctrl-C stops all.", Style.TITLE)
        feed.skip()
        await _first(supervisor.watch(), feed.follow())

    def _report(self, text: str) -> None:
        self.terminal.say(text, Style.ERROR)


def _ports_of_others() -> set[int]:
    """Return the ports of stacks that this user runs already."""
    urls = [url for told in announced() for url in (told.url, told.admin)]
    return {port for url in urls if (port := urlsplit(url).port) is not None}


async def _until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Run *work* until it ends or *stop* is set. Raises: what it raises."""

    async def stopped() -> None:
        await stop.wait()

    await _first(work, stopped())


async def _first(*works: Coroutine[None, None, None]) -> None:
    """Return when the first of *works* has ended. Raises: what that one raises."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end_tasks(*tasks)


def _on_signals(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    def handle() -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    # nohup means it so.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        numbers.discard(signal.SIGHUP)
    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, handle)
