"""The adversary on every kernel and every profile: ten million element checks, and how close each rule came.

    python benchmarks/soundness.py [--json PATH] [--checks 10000000] [--profile sm_90 ...] [--only TEXT] [--seed 1]

    python benchmarks/soundness.py --cross PATH [--runs 12] [--limit SECONDS]

The second form attacks every kernel on every profile once, pair by pair, and writes each pair to PATH: run it again
to go on where it stopped. It prints how long the rest may take. --far repeats the kernels that stayed far from their
bounds, with more executions (84 take every style of inputs); --page writes all that PATH holds as Markdown.

Exits with 1 if any result of a legal execution lies outside its bounds. About 25 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

from interval_ops.profiles.profile import profile_names
from render.lab.adversary import campaign, cross
from render.lab.adversary.attack import AttackTally
from render.lab.adversary.catalogue import every
from render.lab.adversary.page import page


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--checks", type=int, default=10_000_000, help="repeat with other seeds until reached")
    parser.add_argument("--profile", action="append", help="a profile (repeatable); all of them by default")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--runs", type=int, default=12, help="executions per kernel and profile")
    parser.add_argument("--share", type=int, default=0, help="profiles per kernel, in turn; 0: all of them")
    parser.add_argument("--limit", type=float, help="stop after so many seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cross", type=Path, help="every kernel on every profile, written here; resumable")
    parser.add_argument(
        "--far", action="store_true", help="with --cross: only kernels that stayed far from their bounds"
    )
    parser.add_argument("--page", type=Path, help="with --cross: write the report here")
    parser.add_argument("--redo", default="", help="with --cross: forget pairs whose kernel contains this")
    return parser.parse_args()


def subjects(only: str) -> list[Any]:
    """Small, packaged, and the kernels of the language tests."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from adversary_zoo import zoo_subjects

    return [s for s in (*every(), *zoo_subjects()) if only in s.name]


def show(profile: str, name: str, tally: AttackTally) -> None:
    if tally.violated:
        print(
            f"OUTSIDE {profile} {name}: {tally.violated} of {tally.checks}; first: {tally.violations[:1]}", flush=True
        )


def crossed(options: argparse.Namespace, profiles: list[str], found: list[Any]) -> campaign.Report:
    """The cross product, as far as the time allows."""

    def tell(done: int, all_: int, left: float, line: dict[str, Any]) -> None:
        for part in line["parts"]:
            show(line["profile"], line["name"], cross.tally_of(part))
        if done % 50 == 0 or done == all_:
            print(f"{done} of {all_} pairs, about {left / 60:.0f} min left", flush=True)

    if options.redo:
        kept = [line for line in cross.read(options.cross) if options.redo not in line["name"]]
        options.cross.write_text("".join(json.dumps(line) + "\n" for line in kept))
    if options.far:
        known = cross.report(list(cross.read(options.cross))).kernels
        found = [s for s in found if known.get(s.name, AttackTally()).approach < campaign.FAR]
    effort = cross.Effort(options.runs, seed=options.seed)
    cross.run(options.cross, found, profiles, effort, tell, options.limit, not options.far)
    lines = list(cross.read(options.cross))
    report = cross.report(lines)
    if options.page:
        options.page.write_text(
            page(report, lines, "python benchmarks/soundness.py --cross PATH --page docs/soundness.md")
        )
    return report


def summed(options: argparse.Namespace, profiles: list[str], found: list[Any]) -> campaign.Report:
    """As many checks as asked for, with other seeds each time around."""
    report, seed = None, options.seed
    while report is None or (report.total.checks < options.checks and not report.total.violated):
        random.Random(seed).shuffle(found)
        direct = 0 if options.only else 256
        part = campaign.run(profiles, found, 60.0, seed, options.runs, show, options.limit, direct, options.share)
        report = part if report is None else report.merged(part)
        seed += 1
    return report


def main() -> int:
    options = arguments()
    profiles, found = options.profile or profile_names(), subjects(options.only)
    report = (crossed if options.cross else summed)(options, profiles, found)
    text = json.dumps(report.as_dict(), indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(f"{len(report.kernels)} kernels, {len(report.profiles)} profiles, {report.total.checks} checks, "
          f"{report.total.violated} outside, {report.seconds:.0f} s")  # fmt: skip
    for name, value in sorted(report.far.items(), key=lambda item: item[1]):
        print(f"  far from its bounds: {name} {value:.3f}")
    return int(report.total.violated > 0)


if __name__ == "__main__":
    sys.exit(main())
