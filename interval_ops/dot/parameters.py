"""What a dot's model and its counts of roundings come to: the numbers that the final bound is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from interval_ops.dot import kernels
from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import DotModel, Profile

INT32_END = 2.0**31


@dataclass(frozen=True, slots=True)
class Roundings:
    """Counts of roundings: blocks of the unit, plain additions (conversions of the accumulator included)."""

    blocks: int = 0
    adds: int = 0

    def __add__(self, other: Roundings) -> Roundings:
        return Roundings(self.blocks + other.blocks, self.adds + other.adds)

    def beside(self, other: Roundings) -> Roundings:
        """The longer of two parallel paths."""
        return Roundings(max(self.blocks, other.blocks), max(self.adds, other.adds))


EXACT = Roundings()
"""No rounding at all."""


def parameters(
    model: DotModel, profile: Profile, terms: int, parts: int, work: Roundings, depth: Roundings, free: int
) -> kernels.Parameters:
    """The scalars of `kernels.finish`, each rounded up.

    `terms` products; `parts` sums that were added up in float64 before; counts of roundings as in `dot.PendingDot`.
    """
    muted = profile.muted
    loud, operand = 0.0 if muted(model.cause) else 1.0, 0.0 if muted("operand") else 1.0
    theta, align, rho = model.theta * loud, model.aligned * loud, model.rho * loud
    emin, last, adding = accumulator(model)
    emin_out = 0 if model.acc == "int32" else FORMATS[model.acc].emin
    adding, flush = adding * loud, 2.0**-125 * loud if model.flush else 0.0
    omega = (max(2.0**emin * rho, math.ulp(0.0)) if rho else 0.0) + flush
    single = model.block == 1
    slack = 0.0 if model.acc == "int32" else (terms + 4 * parts + 16) * 2.0**-53
    count, floor = float(terms), model.floor * operand
    chops, off = model.chops, {True: math.inf, False: 0.0}
    # Units that chop need no bound of computed partial sums: the exact one holds for them.
    full = {"work_relative": 0.0, "work_power": 0.0} if chops else _power("work", work, theta, adding)
    values = {
        "eps": model.eps * operand,
        "growth": model.growth,
        "floor": floor * count,
        "floor2": floor * floor * count,
        "align": align,
        "rho": rho,
        "omega": omega * (2 if single else 1),
        "leaf": rho if single else 0.0,
        "blocks": float(work.blocks),
        "step": float(model.block),
        "adds": (work.adds - free) * adding,
        "add_omega": work.adds * 2.0**emin_out * adding,
        "add_growth": _compound(work.adds * math.log1p(adding)) if chops else 0.0,
        "sign_growth": _compound(work.adds * math.log1p(adding) + terms * model.terms * math.log1p(2.0**-24)),
        **full,
        **_power("depth", depth, theta, adding),
        "off_work": off[chops],
        "off_depth": off[depth == work],
        "off_signs": off[not chops],
        "least": 2.0**model.emin,
        "subnormal": model.subnormal,
        "emin_acc": 2.0**emin,
        "limit": last,
        "slack": slack * 1.001,
        **_grids(model),
        "outer": model.extra * loud,
        "far": 0.0 if model.apart else math.inf,
    }
    return kernels.Parameters(**values)


def _grids(model: DotModel) -> dict[str, float]:
    """Spacing of sums relative to their binade and smallest spacing, where alignment cuts (`grid`).

    Infinite where terms are not sums of products of the operands (splits), or small ones may become zero.
    """
    if model.acc not in ("fp32", "fp16") or model.flush or model.terms > 1 or model.eps or model.floor:
        return {"ulp": math.inf, "finest": math.inf, "cut": math.inf}
    ulp = max(model.rho * (1.0 if model.chops else 2.0), 2.0 * FORMATS[model.acc].u)
    finest = ulp * 2.0 ** max(accumulator(model)[0], FORMATS[model.acc].emin)
    return {"ulp": ulp, "finest": finest, "cut": 2.0**-model.fraction if model.block > 1 else 0.0}


def _power(name: str, count: Roundings, theta: float, adding: float) -> dict[str, float]:
    """(1 + theta)^blocks (1 + u)^adds - 1, and the factor of what one block loses absolutely."""
    tail = count.adds * math.log1p(adding)
    relative = _compound(count.blocks * math.log1p(theta) + tail)
    power = count.blocks * _up(1.0 + _compound((count.blocks - 1) * math.log1p(theta) + tail))
    return {f"{name}_relative": relative, f"{name}_power": power}


def _up(x: float) -> float:
    return x * (1.0 + 2.0**-48)


def _compound(log: float) -> float:
    """Upper bound of exp(log) - 1; inf where it overflows."""
    return _up(math.expm1(log * (1.0 + 2.0**-48))) if log < 700.0 else math.inf


def accumulator(model: DotModel) -> tuple[int, float, float]:
    """Smallest normal exponent in the unit, smallest magnitude that may overflow, unit roundoff of an addition."""
    if model.acc == "int32":
        return 0, INT32_END, 0.0
    fmt = FORMATS[model.acc]
    # An accumulator of fewer fraction bits than its format (e8m13) ends a little earlier.
    last = fmt.max * (1.0 - 2.0 * model.rho) if model.rho > fmt.u else fmt.max
    return FORMATS["fp32"].emin if model.convert else fmt.emin, last, fmt.u
