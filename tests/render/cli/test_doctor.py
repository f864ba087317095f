"""`render doctor`: its checks see a fault, and its lines say pass, FAIL or skip."""

from __future__ import annotations

from fractions import Fraction

import pytest
from typer.testing import CliRunner

from interval_ops.formats import model as formats
from interval_ops.profiles.profile import Profile
from render.cli import app, doctor, selftest
from render.lab.adversary.campaign import Report
from tests.support import exact, rng, trials

runner = CliRunner()


def failing() -> str:
    raise AssertionError("2 is not 3")


def absent() -> str:
    raise LookupError("nothing to test yet")


def broken() -> str:
    raise OSError("no disk")


@pytest.mark.parametrize(
    ("check", "ok", "detail"),
    [(lambda: "fine", True, "fine"), (failing, False, "2 is not 3"), (absent, None, "nothing to test yet"),
     (broken, False, "OSError: no disk")],
)  # fmt: skip
def test_run(check: object, ok: bool | None, detail: str) -> None:
    assert doctor.run("x", check) == ("x", ok, detail)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "code", "mark"), [(lambda: "fine", 0, "pass"), (failing, 1, "FAIL"), (absent, 0, "skip")]
)
def test_exit_code(monkeypatch: pytest.MonkeyPatch, check: object, code: int, mark: str) -> None:
    pytest.importorskip("render.ops.table")
    monkeypatch.setattr(selftest, "CHECKS", {"one": check})
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == code
    assert f"  {mark}  one:" in result.stdout
    assert result.stdout.splitlines()[-1].endswith(f"exit {code}")
    assert all(name in result.stdout for name in ("triton", "torch", "numba", "python", "gpu", "profiles"))


@pytest.mark.parametrize("fmt", [formats.FP32, formats.FP16, formats.BF16, formats.FP8E4NV], ids=lambda f: f.name)
def test_exact_rounding_of_the_self_test(fmt: formats.Format) -> None:
    """down <= x <= up are neighbours of the format, and nearest is the closer one, ties to an even significand."""
    generator = rng(2)
    for _ in range(trials(100)):
        x = exact(float(generator.normal() * 2.0 ** generator.integers(fmt.emin - 2, 6)))
        nearest, down, up = selftest._round(x, fmt)
        assert down <= x <= up
        step = up - down
        assert step == 0 or step >= Fraction(fmt.min_subnormal)
        assert abs(nearest - x) == min(x - down, up - x)
        if x - down == up - x and step:
            assert (nearest / step) % 2 == 0


def test_rounding_gate_passes_here() -> None:
    assert "equal exact rational rounding" in selftest.rounding_gate()


def test_rounding_gate_sees_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = selftest._round
    monkeypatch.setattr(selftest, "_round", lambda x, fmt: (honest(x, fmt)[1], *honest(x, fmt)[1:]))
    with pytest.raises(AssertionError, match="rounds to"):
        selftest.rounding_gate()


def test_cast_table_passes_here() -> None:
    pytest.importorskip("interval_ops.formats.casting")
    assert "equal ml_dtypes" in selftest.cast_table()


def test_cast_table_sees_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    casting = pytest.importorskip("interval_ops.formats.casting")
    monkeypatch.setattr(casting, "round_value", lambda x, fmt: x)
    with pytest.raises(AssertionError, match="gives"):
        selftest.cast_table()


@pytest.mark.parametrize(
    ("args", "says"),
    [(["--triton-version", "3.6"], "only with --soundness"), (["--device", "a100"], "--device: only with"),
     (["--soundness", "--triton-version", "2.1"], "no version"), (["--soundness", "--device", "foo"], "unknown device"),
     (["--soundness", "--device", "cpu", "--sum-order", "tree"], "order of sums is not known")],
)  # fmt: skip
def test_wrong_options_are_usage_errors(args: list[str], says: str) -> None:
    result = runner.invoke(app, ["doctor", *args])
    assert result.exit_code == 2
    assert says in result.output and "internal" not in result.output


def test_attacks_assume_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiles that are attacked carry the choices, so that bounds and executions agree on them."""
    seen: list[Profile] = []
    monkeypatch.setattr("render.lab.adversary.campaign.run", lambda profiles, *rest: seen.extend(profiles) or Report())
    chosen = ["--sum-order", "tree", "--fp-contraction", "off", "--triton-version", "3.7"]
    result = runner.invoke(app, ["doctor", "--soundness", "--device", "a100", *chosen])
    assert result.exit_code == 0, result.output
    assert "sum order tree, fp contraction off, triton version 3.7" in result.output
    (profile,) = seen
    assert (profile.name, profile.sum_order, profile.contraction, profile.triton) == ("sm_80", "tree", "off", (3, 7))
