"""The order in which the stock interpreter's programs are timed."""

import json
import subprocess
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from render.lab.replay import stock
from render.lab.replay.repeats import again
from render.lab.replay.stock import REFUSED, SAYS, Stock, StopWatch, TimeIsUp


@pytest.mark.parametrize("grid", [(1, 1, 1), (4, 3, 2), (32, 192, 1), (5, 1, 7)])
def test_every_program_runs_once(grid):
    watch, total = StopWatch(1e9), grid[0] * grid[1] * grid[2]
    seen = {watch.next_program(grid) for _ in range(total)}
    assert len(seen) == total
    assert all(0 <= i < n for program in seen for i, n in zip(program, grid, strict=True))
    assert watch.result().fraction == 1.0
    assert watch.next_program((2, 1, 1)) == (0, 0, 0) and watch.total == total + 2  # the next launch


def test_a_share_of_the_grid_is_spread_over_it():
    watch = StopWatch(1e9)
    rows = [watch.next_program((32, 192, 1))[0] for _ in range(600)]
    assert abs(sum(rows) / len(rows) - 15.5) < 0.5


def test_the_time_is_extrapolated_from_the_share():
    watch = StopWatch(-1.0)
    watch.next_program((10, 1, 1))
    with pytest.raises(TimeIsUp):
        watch.next_program((10, 1, 1))
    assert watch.result().fraction == 0.1


@pytest.mark.parametrize(
    ("status", "older", "expected"),
    [
        (REFUSED, "/older", Stock(3.0, error="no block pointers", triton="3.6.0")),
        (REFUSED, "", Stock(None, error="no block pointers")),
        (-6, "/older", Stock(None, error="no block pointers")),
        (0, "/older", Stock(1.0, triton="3.9.0")),
    ],
)
def test_an_older_triton_runs_only_what_the_installed_one_refuses(monkeypatch, status, older, expected):
    """A crash is no refusal: a kernel that writes out of bounds is not run again."""
    asked = []

    def run_apart(case, limit, small, front):
        asked.append(front)
        if front:
            return Stock(3.0, triton="3.6.0"), 0
        return (Stock(1.0, triton="3.9.0") if status == 0 else Stock(None, error="no block pointers")), status

    monkeypatch.setattr(stock, "_run_apart", run_apart)
    assert stock.measure(None, 10.0, older=older) == expected
    assert asked == ["", older] if expected.triton == "3.6.0" else asked == [""]


def test_a_short_run_is_repeated_and_a_long_one_is_not():
    spent = iter([0.4, 0.1, 0.3])
    assert again(lambda: next(spent), 1.9) == 0.3
    assert again(lambda: 1 / 0, 2.1) is None
    assert again(lambda: 1 / 0, None) is None


@pytest.mark.parametrize(
    ("printed", "status", "expected"),
    [
        ([Stock(0.5, triton="3.9.0"), Stock(0.5, triton="3.9.0", again=0.2)], 0, Stock(0.5, triton="3.9.0", again=0.2)),
        ([Stock(0.5, triton="3.9.0")], -11, Stock(0.5, triton="3.9.0")),
        ([], -11, Stock(None, error="it broke")),
    ],
)
def test_a_repetition_that_crashes_leaves_the_first_time(monkeypatch, printed, status, expected):
    lines = ["the user's own words"] + [SAYS + json.dumps(asdict(s)) for s in printed]

    def done(command, **options):
        return subprocess.CompletedProcess(command, status, "\n".join(lines), "it broke\n")

    monkeypatch.setattr(subprocess, "run", done)
    found, code = stock._run_apart(SimpleNamespace(path="p"), 10.0, True, "")
    assert found == expected and code == (status if not printed else 0)
