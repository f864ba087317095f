"""The table of library functions: covers the installed Triton, is documented, and holds what flushing may do.

The rules themselves are tested in `test_functions` (one argument) and `test_joint` (several).
"""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl
from containment import hard_intervals, point, sample, well_formed
from support import rng, trials

from interval_ops.formats.model import FP32, FP64
from interval_ops.profiles.profile import CAUSES, MissingRule, load_profile, profile_names
from render.ops.library import ASSUMED, CONVERSIONS, INTEGERS, LIBRARY, REFUSED

NVIDIA = {"ieee", "any", *(name for name in profile_names() if name.startswith("sm_"))}
SM80, IEEE = load_profile("sm_80"), load_profile("ieee")


def library_names(root: Path = Path(tl.__file__).parent) -> set[str]:
    """Public functions of every libdevice module of the installed Triton, from its sources."""
    files = root.glob("extra/**/libdevice.py")
    trees = [ast.parse(file.read_text()) for file in files]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_name_is_covered_once() -> None:
    covered = [*LIBRARY, *CONVERSIONS, *INTEGERS, *REFUSED]
    assert len(covered) == len(set(covered))
    names = {name for name in library_names() if not name.startswith("_")}
    assert len(names) > 150
    assert not names - set(covered), "new library functions: give them a rule or a reason"
    assert not set(covered) - names, "stale"


def test_a_new_function_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "extra" / "vendor" / "libdevice.py"
    file.parent.mkdir(parents=True)
    file.write_text("@core.extern\ndef brand_new(arg0, _semantic=None):\n    return None\n")
    assert library_names(tmp_path) - {*LIBRARY, *CONVERSIONS, *INTEGERS, *REFUSED} == {"brand_new"}


def test_reasons_are_sentences_and_stand_ins_exist() -> None:
    assert all(len(reason.split()) > 4 for reason in REFUSED.values())
    assert set(ASSUMED) <= set(REFUSED) and all(name in LIBRARY for name in ASSUMED.values())


@pytest.mark.parametrize("name", LIBRARY)
def test_entries_are_documented(name: str) -> None:
    rule = LIBRARY[name]
    assert rule.op == name and rule.doc.endswith(".") and rule.error is not None
    assert rule.cause is None or rule.cause in CAUSES
    for device in profile_names():
        with contextlib.nullcontext() if device in NVIDIA else contextlib.suppress(MissingRule):
            text = rule.error(load_profile(device))
            assert text and "\n" not in text


def slack(name: str) -> float:
    """Directed rounding of a bound that float64 could not hold exactly may go one number further."""
    return 2.0**-22 if name.endswith(("_rd", "_ru", "_rz")) else 2.0**-45


@pytest.mark.parametrize("name", LIBRARY)
def test_every_target_encloses_correct_rounding(name: str) -> None:
    generator, rule = rng(111), LIBRARY[name]
    args = []
    for _ in range(rule.arity):
        lo, hi = hard_intervals(generator, FP32, trials(200))
        args.append((np.clip(lo, *rule.domain), np.clip(hi, *rule.domain)))
    inner = rule.apply(tuple(args), FP32, IEEE)  # type: ignore[misc]
    well_formed(inner)
    for device in ("sm_80", "gfx90a"):
        try:
            outer = rule.apply(tuple(args), FP32, load_profile(device))  # type: ignore[misc]
        except MissingRule:
            continue
        well_formed(outer)
        low, high = (np.where(np.isinf(end), 0, slack(name) * np.abs(end) + 2.0**-1060) for end in inner)
        ok = np.isnan(outer[0]) | ((outer[0] - low <= inner[0]) & (inner[1] <= outer[1] + high))
        assert ok.all(), [v[~ok][0] for pair in (*args, outer, inner) for v in pair]


@pytest.mark.parametrize("name", LIBRARY)
def test_smaller_operands_give_smaller_results(name: str) -> None:
    generator, rule = rng(112), LIBRARY[name]
    args = []
    for _ in range(rule.arity):
        lo, hi = hard_intervals(generator, FP32, trials(300))
        low, high = max(rule.domain[0], -40.0), min(rule.domain[1], 40.0)
        args.append((np.clip(lo, low, high), np.clip(hi, low, high)))
    part = [(np.minimum(sample(generator, a, FP32), a[1]), a[1]) for a in args]
    outer, inner = (rule.apply(tuple(a), FP32, SM80) for a in (args, part))  # type: ignore[misc]
    # Where part of the operands is an exact zero, a quotient is top by convention.
    zero = np.any([(lo == 0) & (hi == 0) for lo, hi in part], axis=0)
    low, high = (np.where(np.isinf(end), 0, slack(name) * np.abs(end) + 2.0**-1060) for end in inner)
    ok = np.isnan(outer[0]) | zero | ((outer[0] - low <= inner[0]) & (inner[1] <= outer[1] + high))
    assert ok.all(), [v[~ok][0] for pair in (*args, *part, outer, inner) for v in pair]


def test_flushing_moves_subnormal_operands_and_results() -> None:
    """PTX of a library compiled with the flush flag: add.rn.ftz, fma.rn.ftz, abs.ftz."""
    tiny = float(np.float32(1e-39))
    for name, args in (
        ("add_rn", (point(tiny), point(0.0))),
        ("abs", (point(-tiny),)),
        ("sqrt_rn", (point(tiny),)),
        ("mul_rn", (point(1e-20), point(float(np.float32(1e-19))))),
        ("fma_rd", (point(tiny), point(1.0), point(0.0))),
    ):
        assert LIBRARY[name].apply(args, FP32, SM80)[0][0] <= 0  # type: ignore[misc]
        assert LIBRARY[name].apply(args, FP32, IEEE)[1][0] > 0  # type: ignore[misc]
    assert LIBRARY["add_rn"].apply((point(tiny), point(0.0)), FP64, SM80)[0][0] == tiny  # type: ignore[misc]
    lo, hi = LIBRARY["floor"].apply((point(-tiny),), FP32, SM80)  # type: ignore[misc]
    assert (lo[0], hi[0]) == (-1, 0)


def test_round_halves() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388607.5, -0.2])
    away = LIBRARY["round"].apply(((x, x),), FP32, SM80)[0]  # type: ignore[misc]
    assert away.tolist() == [1, 2, 3, -1, -3, 0, 8388608, 0]
    assert LIBRARY["rint"].apply(((x, x),), FP32, SM80)[0].tolist() == [0, 2, 2, 0, -2, 0, 8388608, 0]  # type: ignore[misc]
    y = np.array([0.49999999999999994])
    assert LIBRARY["round"].apply(((y, y),), FP64, SM80)[0][0] == 0  # type: ignore[misc]


def test_logb_is_the_exponent() -> None:
    x = np.array([1.0, 0.75, 1024.5, 0.0, np.inf, -8.0])
    assert LIBRARY["logb"].apply(((x, x),), FP32, SM80)[0].tolist() == [0, -1, 10, -np.inf, np.inf, 3]  # type: ignore[misc]
