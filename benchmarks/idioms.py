"""Scripts in forty idioms of wrapping, launching, comparing and loading: the page docs/idioms.md.

python -m benchmarks.idioms > docs/idioms.md
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from tests.idiom_zoo import COUNT, RIGHT, WRONG, Idiom, idioms, ran

HEAD = f"""# Scripts as people write them

`render run` takes a script, a module, tests or a notebook as it is. `python -m benchmarks.idioms` draws {COUNT}
scripts, each from a form of the kernel, of the launch, of the comparison and of the files (`tests/idiom_zoo.py`),
once right and once with a wrong factor, and writes this page. In the last two columns: the label of the right one;
the label of the wrong one, and whether it names the line of the factor. What is refused says why.

| kernel | launch | comparison | files | right | wrong |
|---|---|---|---|---|---|"""


def said(one: Idiom, factor: str) -> str:
    unheard = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), unheard[0], unheard[1]:
        found = ran(one, factor, Path(folder))
    if found.refused:
        return "refused: " + found.refused.splitlines()[0].partition(": ")[0].partition(" at ")[0].replace("|", "\\|")
    labels = ", ".join(sorted(set(found.labels))) or "nothing compared"
    where = " at its line" if WRONG in found.line else " elsewhere"
    return labels + (where if found.line else "")


def main() -> None:
    print(HEAD)
    rows = [(one, said(one, RIGHT), said(one, WRONG)) for one in idioms()]
    for one, right, wrong in rows:
        print(f"| {one.kernel.told} | {one.launch.told} | {one.check.told} | {one.load[0]} | {right} | {wrong} |")
    refused = sum(bool(one.refused) for one, _, _ in rows)
    good = sum((r, w) == ("Type-I", "Type-II at its line") for _, r, w in rows)
    print(f"\n{good} of {len(rows)} have both labels right and name the line, {refused} are refused by name.")


if __name__ == "__main__":
    main()
