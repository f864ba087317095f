"""The table of network cases; `--page docs/network-cases.md` writes it. It compiles, which takes minutes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from render.lab.corpus.case import load_cases
from render.lab.replay.models import disagreements, judged

INTRO = """# Network cases

Written by `benchmarks/network_cases.py`: the cases of `datasets/network/`, judged on this machine's CPU. "paper" is the
published rule alone (is the reference in the target's bound?); "eta" is the error of target and reference in units of
what the conditioning and one rounding of the output explain. A `?` stands where a function has no bound.
"""


def rows() -> Iterator[str]:
    yield "| case | what | truth | answer | code | paper | eta target / reference | operation | as expected |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case in load_cases(("network",)):
        facts, verdict = case.facts, judged(case)
        record = max(verdict.leaves, key=lambda r: (r.label == "Type-II", r.differing > 0, r.difference))
        paper = {"Inconclusive": "?"}.get(verdict.paper_rule, verdict.paper_rule)
        eta = f"{record.eta_target:.2g} / {record.eta_reference:.2g}"
        right = "no" if list(disagreements(case, verdict)) else "yes"
        cells = [f"[{facts.id}]({facts.url})", facts.title, facts.label, verdict.label, verdict.code, paper, eta,
                 record.operation or "-", right]  # fmt: skip
        yield "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path)
    page = parser.parse_args().page
    text = INTRO + "\n" + "\n".join(rows()) + "\n"
    if page is None:
        print(text)
    else:
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
