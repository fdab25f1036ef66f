"""
What a gateway costs, as ratios to Envoy alone in the same run.

Starts every variant that this build of Tokenweir can be (see the lines about those that
are skipped), asks them all in turn, and prints a table. build/bench gets result.json,
result.md and result.svg. Exits 1 if figures are broken, which being slow is not.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.gateway import litellm_environment, scale
from bench.gateway.campaign import Campaign, full, only_correctness, smoke
from bench.gateway.capabilities import discover
from bench.gateway.children import ROOT
from bench.gateway.result import Result
from bench.gateway.stand import Site
from bench.gateway.surroundings import command_line, surroundings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gateway",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--smoke",
        action="store_true",
        help="a minute's run of a few: does it all work?",
    )
    what.add_argument(
        "--scale",
        action="store_true",
        help="how cost grows with tenants, prompts, workers, streams and sidecars",
    )
    what.add_argument(
        "--correctness", action="store_true", help="over-admission, and nothing else"
    )
    parser.add_argument(
        "--with",
        dest="peers",
        action="append",
        default=[],
        choices=["litellm"],
        help="measure it, too; installed into build/litellm first, which takes minutes",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help='variants in whose names that stands, and Envoy alone, such as "native"',
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="(default: 9)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "bench",
        metavar="DIR",
        help="gets the results (default: build/bench)",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the result into docs/benchmarks.md, too, and its picture beside this program",
    )
    return parser


def main() -> int:
    """Parse the command line and run; return the exit code."""
    args = _parser().parse_args()
    build = discover()
    litellm = litellm_environment.installed()
    if args.peers:
        litellm = litellm_environment.make()
    if litellm and not args.smoke:
        build = replace(build, known=build.known | {"litellm"})
    result = Result(surroundings(command_line()))
    folder = Path(tempfile.mkdtemp(prefix="tw-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        site = Site.open(build, folder, stack, litellm)
        if args.scale:
            return _scale(site, args.out)
        campaign = Campaign(site, result, args.only, args.rounds, args.minutes * 60)
        run = smoke if args.smoke else only_correctness if args.correctness else full
        run(campaign)
    result.write(args.out)
    if args.write:
        result.publish()
    print(result.text())
    print(f"\n{args.out}/result.json, result.md, result.svg", file=sys.stderr)
    for line in result.wrong:
        print(f"BROKEN: {line}", file=sys.stderr)
    return 1 if result.wrong else 0


def _scale(site: Site, out: Path) -> int:
    told = surroundings(command_line())
    variant = scale.cheapest(site.build)
    points = list(scale.points(site, variant))
    scale.write(out, told, variant, points)
    print(f"{variant.name}\n\n{scale.table(points)}")
    return 1 if any(point.failed for point in points) else 0


if __name__ == "__main__":
    raise SystemExit(main())
