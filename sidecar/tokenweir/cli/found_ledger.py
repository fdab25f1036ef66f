"""Which ledger is meant: the one that is given, or that of a `tokenweir up` here."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from tokenweir.cli.ledger_option import HELP as GIVEN_HELP
from tokenweir.cli.ledger_option import LedgerOptionError, ledger_url

LEDGER_VARIABLE = "TOKENWEIR_LEDGER_URL"
HELP = (
    f"{GIVEN_HELP} (default: env:{LEDGER_VARIABLE}, else that of a running "
    "`tokenweir up`)"
)


def found_ledger_url(given: str | None) -> str:
    """Return the URL that *given* says. Raises: LedgerOptionError, if there is none."""
    if given is not None:
        return ledger_url(given)
    if os.environ.get(LEDGER_VARIABLE):
        return ledger_url(f"env:{LEDGER_VARIABLE}")
    return _running_stack()


def no_answer(url: str, error: BaseException | None = None) -> str:
    """
    Return what to say if nobody answers at *url*; its password is left out.

    *error* is what calls have failed with: then it is said what to do about that.
    """
    from tokenweir.ledger.address import place  # noqa: PLC0415 -- slow
    from tokenweir.ledger.advice import advice  # noqa: PLC0415 -- slow

    where = place(url)
    if error is not None and (known := advice(error)):
        return f"--ledger: no answer from {where}. {known}"
    doubts = "Does it run, and do user and password fit?"
    if where.startswith("rediss"):
        doubts += " Is its certificate signed by one that ssl_ca_certs names?"
    return f"--ledger: no answer from {where}. {doubts}"


def _running_stack() -> str:
    """Return the URL of the ledger that `tokenweir up` has embedded."""
    from tokenweir.stack.folder import PREFIX, SHORT_PARENT  # noqa: PLC0415 -- slow

    found = sorted(
        {
            path
            for parent in (tempfile.gettempdir(), SHORT_PARENT)
            for path in Path(parent).glob(f"{PREFIX}*/ledger.sock")
            if _accepts(path)
        }
    )
    if len(found) > 1:
        urls = "".join(f"\n  --ledger unix://{path}" for path in found)
        raise LedgerOptionError(
            f"More than one `tokenweir up` runs here. Say which:{urls}"
        )
    if not found:
        raise LedgerOptionError(
            "No `tokenweir up` with a ledger of its own runs here. Start one, or say "
            f"where the ledger is, by --ledger or in {LEDGER_VARIABLE}."
        )
    return f"unix://{found[0]}"


def _accepts(path: Path) -> bool:
    """Tell if somebody listens: a stack that was killed leaves its socket behind."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
