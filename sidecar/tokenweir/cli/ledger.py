"""`tokenweir ledger`: whether counters and sums are right, and how to put them right."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenweir.cli import EXIT_FINE, EXIT_PROBLEMS, EXIT_USAGE, Subparsers
from tokenweir.cli.found_ledger import HELP as LEDGER_HELP
from tokenweir.cli.found_ledger import found_ledger_url, no_answer
from tokenweir.cli.ledger_option import LedgerOptionError
from tokenweir.cli.numbers import number
from tokenweir.cli.problems import tell
from tokenweir.cli.records_option import (
    add_records_options,
    read_all,
    records_source,
)
from tokenweir.core.errors import LedgerUnavailableError, PolicyError, TokenweirError

if TYPE_CHECKING:  # slow
    from tokenweir.core.policy import Policy
    from tokenweir.ledger.audit import Audit
    from tokenweir.ledger.inspector import Inspector
    from tokenweir.ledger.rollups import RollupAudit

DAY_MS = 86_400_000
# Counters are kept for forty days after their window, sums for thirteen months.
MAX_DAYS = 40
MAX_SUMS_DAYS = 400
# Records are in the ledger for so long.
SUMS_DAYS = 7

_HELP = "prove that budgets' counters and hourly sums are right, and repair them"
_DESCRIPTION = """\
Prove that budgets' counters and hourly sums are right, and repair them: both are compared
with usage records, those in the ledger and those that were exported.

`verify` only reads. `rebuild` says what it would do, and does it with --apply.
docs/ledger.md tells when they are needed.
"""
_VERIFY = """\
Compare the counter of each budget, in the window that is open now, with what records and
hourly sums in the ledger say that was spent, and with exported records if they are given:
those win where they know more. What is reserved is compared with what holds have taken.
And compare the hourly sums of the last seven days (or --days) with the records.

The policy says which budgets there are, so it has to be the one that is in force; keys
that were issued through the ledger are found there. Nothing is changed.

What is not proven to agree is told: too low, too high, or "can't tell" and why; of sums
what differs, by hour and tenant. Sums that tell of more than records do are counted, and
no disagreement: records end first. The exit code is 0 if every counter agrees and no sum
differs, else 1.
"""
_REBUILD = """\
Do as `verify` does, and put right what is wrong: what is missing is added to the
counter, whatever is settled meanwhile, and what is reserved is set to what holds have
taken. Thresholds that are passed so count as told. One such command runs at a time.

Counters only go up unless --allow-decrease is given: an older snapshot makes them too
low. Without --apply it is only told what would be done.

With --rollups hourly sums are put right instead, those by end user too: they say then
what the records say, if those (with exported ones: give --records) tell of as many
exchanges as the sums. Refusals and matched quotas have no record, and stay as they are.
No policy is needed for that. It may run while exchanges go on, and repeating it is
harmless.

The exit code is 0 if nothing is (or is left) to do, else 1.
"""
_EPILOG = """\
examples:
  tokenweir ledger verify --policy policy.yaml
  tokenweir ledger verify --policy policy.yaml --records /var/lib/usage --days 7
  tokenweir ledger rebuild --policy policy.yaml --records /var/lib/usage --apply
  tokenweir ledger rebuild --rollups --records /var/lib/usage --days 30 --apply

docs/ledger.md tells what to do after Redis has lost data.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommands."""
    parser = subparsers.add_parser(
        "ledger",
        help=_HELP,
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="verb", required=True
    )
    verify = _add(
        verbs, "verify", "compare counters and sums with usage records", _VERIFY
    )
    verify.add_argument(
        "--all", action="store_true", help="tell of counters that agree, too"
    )
    verify.set_defaults(run=run_verify)
    repair = _add(verbs, "rebuild", "put counters or sums right", _REBUILD)
    repair.add_argument(
        "--rollups",
        action="store_true",
        help="put hourly sums right, and not counters of budgets",
    )
    repair.add_argument("--apply", action="store_true", help="do it")
    repair.add_argument(
        "--allow-decrease",
        action="store_true",
        help="lower counters that are too high, as when they count what was never used",
    )
    repair.set_defaults(run=run_rebuild)


def _add(verbs: Any, name: str, help_: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help_,
        description=text,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--policy",
        type=pathlib.Path,
        metavar="FILE",
        help="the policy in force: it says which budgets there are (not needed for "
        "--rollups)"
        if name == "rebuild"
        else "the policy in force: it says which budgets there are",
        required=name != "rebuild",
    )
    parser.add_argument("--ledger", metavar="URL", help=LEDGER_HELP)
    add_records_options(parser)
    parser.add_argument(
        "--days",
        type=number(1, MAX_SUMS_DAYS if name == "rebuild" else MAX_DAYS),
        metavar="N",
        help="also windows that ended within the last N days (default: open ones only); "
        "sums of the last N days (default: 7)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, everything")
    return parser


@dataclass(frozen=True)
class _Task:
    """What is looked into, and by which evidence."""

    url: str
    policy: Policy | None
    sources: Sequence[str]
    table: str | None
    days: int | None


def run_verify(arguments: argparse.Namespace) -> int:
    """Compare, and tell."""

    async def verify(task: _Task) -> int:
        from tokenweir.cli.ledger_text import (  # noqa: PLC0415 -- slow
            verify_document,
            verify_text,
        )
        from tokenweir.cli.rollups_text import rollups_document, rollups_text  # noqa: PLC0415

        async with _auditing(task) as (inspector, audit):
            found = await audit()
            sums = await _sums(inspector, task)
        if arguments.json:
            document = {**verify_document(found), "rollups": rollups_document(sums)}
            print(json.dumps(document, indent=2))
        else:
            print(verify_text(found, everything=arguments.all, bold=_is_terminal()))
            print(f"\n{rollups_text(sums, bold=_is_terminal())}")
        is_fine = found.agrees and not sums.differing
        return EXIT_FINE if is_fine else EXIT_PROBLEMS

    return _run(arguments, verify)


def run_rebuild(arguments: argparse.Namespace) -> int:
    """Put right, and tell."""
    if (problem := _misuse(arguments)) is not None:
        print(problem, file=sys.stderr)
        return EXIT_USAGE
    if arguments.rollups:
        return _run(arguments, lambda task: _rebuild_sums(task, arguments))

    async def repair(task: _Task) -> int:
        from tokenweir.cli.ledger_text import (  # noqa: PLC0415 -- slow
            rebuild_document,
            rebuild_text,
            verify_text,
        )
        from tokenweir.ledger.rebuild import plan, rebuild  # noqa: PLC0415 -- slow

        decrease = arguments.allow_decrease
        async with _auditing(task) as (inspector, audit):
            if arguments.apply:
                owner = secrets.token_hex(8)
                found, steps = await rebuild(
                    inspector, audit, owner, allow_decrease=decrease
                )
            else:
                found = await audit()
                steps = plan(found.findings, allow_decrease=decrease)
        if arguments.json:
            document = rebuild_document(found, steps, applied=arguments.apply)
            print(json.dumps(document, indent=2))
        else:
            print(verify_text(found, everything=False, bold=_is_terminal()))
            if steps:
                print(f"\n{rebuild_text(steps, bold=_is_terminal())}")
            print(f"\n{_outcome(len(steps), arguments)}")
        is_done = all(step.done for step in steps)
        return EXIT_FINE if is_done else EXIT_PROBLEMS

    return _run(arguments, repair)


def _misuse(arguments: argparse.Namespace) -> str | None:
    """Return what is wrong with options that do not go together."""
    if arguments.rollups:
        if arguments.allow_decrease:
            return "--allow-decrease is for counters: leave it out with --rollups"
        return None
    if arguments.policy is None:
        return "--policy: give the policy in force (only --rollups needs none)"
    if arguments.days is not None and arguments.days > MAX_DAYS:
        return (
            f"--days: counters are kept for {MAX_DAYS} days; only --rollups goes "
            "further back"
        )
    return None


async def _rebuild_sums(task: _Task, arguments: argparse.Namespace) -> int:
    """Put sums right, and tell."""
    from tokenweir.cli.rollups_text import (  # noqa: PLC0415 -- slow
        rollups_document,
        rollups_text,
    )
    from tokenweir.ledger.inspector import Inspector  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    inspector = Inspector(task.url, Fanout(()))
    try:
        sums = await _sums(inspector, task, mends=arguments.apply)
    finally:
        await inspector.close()
    if arguments.json:
        document = {"applied": arguments.apply, "rollups": rollups_document(sums)}
        print(json.dumps(document, indent=2))
    else:
        print(rollups_text(sums, bold=_is_terminal()))
        print(f"\n{_outcome(len(sums.differing), arguments)}")
    is_done = not (sums.left if arguments.apply else sums.differing)
    return EXIT_FINE if is_done else EXIT_PROBLEMS


async def _sums(
    inspector: Inspector, task: _Task, *, mends: bool = False
) -> RollupAudit:
    """Compare sums with records, and put them right if that is asked for."""
    from tokenweir.export.evidence import exported_figures  # noqa: PLC0415 -- slow
    from tokenweir.ledger.rollups import RollupAuditor  # noqa: PLC0415 -- slow

    days_ms = (task.days or SUMS_DAYS) * DAY_MS
    figures = read_all(task.sources, task.table, exported_figures)
    auditor = RollupAuditor(inspector, days_ms, figures)
    return await (auditor.rebuild() if mends else auditor.audit())


def _outcome(steps: int, arguments: argparse.Namespace) -> str:
    if not steps:
        return "Nothing to put right, as far as can be told."
    if arguments.apply:
        return "Done where it says so. `tokenweir ledger verify` looks again."
    return "Nothing was changed: --apply does it."


def _run(arguments: argparse.Namespace, what: Callable[[_Task], Awaitable[int]]) -> int:
    from tokenweir.config.load import load_policy  # noqa: PLC0415 -- slow

    try:
        url = found_ledger_url(arguments.ledger)
        sources = [records_source(given) for given in arguments.records]
    except LedgerOptionError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    try:
        policy = None
        if arguments.policy is not None:
            policy = load_policy(arguments.policy, os.environ, credentials=False)
    except PolicyError as error:
        tell(arguments.policy, error, sys.stdout, sys.stderr)
        return EXIT_PROBLEMS
    task = _Task(url, policy, sources, arguments.table, arguments.days)
    return _told(url, lambda: asyncio.run(_awaited(what(task))))


def _told(url: str, action: Callable[[], int]) -> int:
    """Do *action*; say what to do about its errors."""
    from tokenweir.core.errors import LedgerRefusedError  # noqa: PLC0415 -- slow

    try:
        return action()
    except LedgerRefusedError as error:
        print(f"--ledger: {error}. {_RIGHTS}", file=sys.stderr)
    except LedgerUnavailableError as error:
        print(f"{no_answer(url, error)} {_RIGHTS}", file=sys.stderr)
    except PolicyError as error:
        print("keys that were issued: " + "; ".join(error.problems), file=sys.stderr)
    except TokenweirError as error:
        print(f"{error}.".replace("..", "."), file=sys.stderr)
    return EXIT_PROBLEMS


_RIGHTS = (
    "The user needs the rights of tokenweir-auditor (verify) or tokenweir-rebuilder."
)


async def _awaited(what: Awaitable[int]) -> int:
    return await what


@asynccontextmanager
async def _auditing(
    task: _Task,
) -> AsyncIterator[tuple[Inspector, Callable[[], Awaitable[Audit]]]]:
    """Give what looks into the ledger."""
    from tokenweir.export.evidence import exported  # noqa: PLC0415 -- slow
    from tokenweir.ledger.audit import Auditor  # noqa: PLC0415 -- slow
    from tokenweir.ledger.inspector import Inspector  # noqa: PLC0415 -- slow
    from tokenweir.ledger.redis import RedisStore  # noqa: PLC0415 -- slow
    from tokenweir.telemetry.fanout import Fanout  # noqa: PLC0415 -- slow

    events = Fanout(())
    store, inspector = RedisStore(task.url, events), Inspector(task.url, events)

    async def audit() -> Audit:
        since_ms = None
        if task.days is not None:
            since_ms = await inspector.now_ms() - task.days * DAY_MS
        policy = await _with_issued_keys(task)
        exchanges = read_all(task.sources, task.table, exported)
        auditor = Auditor(inspector, store, policy, exchanges, since_ms)
        return await auditor.audit()

    try:
        yield inspector, audit
    finally:
        await inspector.close()
        await store.close()


async def _with_issued_keys(task: _Task) -> Policy:
    """
    Return the policy with the keys that were issued through the ledger.

    Their signature is not checked: here they only say which budgets there are.
    """
    from tokenweir.config.issued_keys import with_issued_keys  # noqa: PLC0415 -- slow
    from tokenweir.governance.key_desk import newest_at  # noqa: PLC0415 -- slow

    assert task.policy is not None
    envelope = await newest_at(task.url, ())
    if envelope is None:
        return task.policy
    return with_issued_keys(task.policy, envelope.content)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
