"""Inline PTX of instructions that have a rule; everything else is refused by name.

An instruction is the operation of the language, or the function of the vendor's library, that compiles to it, with that
one's error in the profile. Sources: PTX ISA 8 and 9, floating-point and conversion instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import triton.language as tl

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Pair
from interval_ops.formats.model import Format
from interval_ops.functions.elementary import unary
from interval_ops.profiles.profile import MissingRule, Profile
from render.interpreter.builder.assembly_text import Straight
from render.interpreter.builder.floats import dispatch
from render.interpreter.handle import Handle
from render.interpreter.values import VALUES
from render.ops.library import APPROXIMATE, LIBRARY, flushed
from render.ops.rule import Apply, Rule, Shape

if TYPE_CHECKING:
    from render.interpreter.builder.base import Base

_TYPES: Mapping[str, tuple[Any, str]] = {
    "f32": (tl.float32, "fr"), "f64": (tl.float64, "dl"), "f16": (tl.float16, "h"), "bf16": (tl.bfloat16, "h"),
    "s32": (tl.int32, "r"), "u32": (tl.uint32, "r"), "s64": (tl.int64, "l"), "u64": (tl.uint64, "l"),
}  # fmt: skip
"""Element type and register classes of a PTX type."""
_CLASSES = dict(_TYPES.values())
_PACKED = {tl.float16: "r", tl.bfloat16: "r"}
_PAIR = re.compile(r"\b(b?f16)x2\b")
_DIRECTIONS = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}


class Instruction(NamedTuple):
    """What it is: `method` of the builder, `library` function, or `own` rule. `types` of result and operands; `ftz`:
    the rule allows flushed subnormals; `since`: the first compute capability that has it."""

    types: tuple[str, ...]
    method: str = ""
    library: str = ""
    own: Apply | None = None
    ftz: bool = False
    since: int = 0


def _reciprocal(args: tuple[Any, ...], fmt: Format, profile: Profile) -> Pair:
    """1 / x within the error of div.full, 2 ulp: rcp.approx is within 1 (PTX ISA)."""
    one = np.ones((1,) * args[0][0].ndim)
    return arithmetic.div((one, one), args[0], fmt, profile, "div")


def _own_error(name: str, since: int, kind: str = "f32", ftz: bool = False) -> Instruction:
    """A function with an entry of its own in the profiles (`NAME_approx`, of halves `NAME_approx@fp16`)."""

    def apply(args: tuple[Any, ...], fmt: Format, profile: Profile) -> Pair:
        return unary(name, args[0], fmt, profile, f"{name}_approx")

    return Instruction((kind, kind), library=name, own=apply, since=since, ftz=ftz)


def _known() -> dict[str, Instruction]:
    f = "f32"
    found = {
        "ex2.approx.f32": Instruction((f, f), "create_exp2", ftz=True),
        "sqrt.approx.f32": Instruction((f, f), "create_sqrt", ftz=True),
        "rsqrt.approx.f32": Instruction((f, f), "create_rsqrt", ftz=True),
        "lg2.approx.f32": Instruction((f, f), library="fast_log2f", ftz=True),
        "sin.approx.f32": Instruction((f, f), library="fast_sinf", ftz=True),
        "cos.approx.f32": Instruction((f, f), library="fast_cosf", ftz=True),
        "rcp.approx.f32": Instruction((f, f), library="rcp_rn", own=flushed(_reciprocal), ftz=True),
        "div.full.f32": Instruction((f, f, f), "create_fdiv"),
        "add.f32": Instruction((f, f, f), "create_fadd"),
        "sub.f32": Instruction((f, f, f), "create_fsub"),
        "mul.f32": Instruction((f, f, f), "create_fmul"),
        "max.f32": Instruction((f, f, f), "create_maxnumf"),
        "min.f32": Instruction((f, f, f), "create_minnumf"),
        "abs.f32": Instruction((f, f), "create_fabs"),
        "neg.f32": Instruction((f, f), "create_fneg"),
        "cvt.sat.f32.f32": Instruction((f, f), library="saturatef", ftz=True),
    }
    found |= {f"{name}.approx.f32": _own_error(name, since) for name, since in APPROXIMATE.items()}
    for written, name in _DIRECTIONS.items():
        for op, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)):
            found[f"{op}.{written}.f32"] = Instruction((f,) * (count + 1), library=f"{op}_{name}", ftz=True)
        for kind, integer in (("s32", "int"), ("u32", "uint"), ("s64", "ll"), ("u64", "ull")):
            found[f"cvt.{written}.f32.{kind}"] = Instruction((f, kind), library=f"{integer}2float_{name}")
            to = f"float2{integer}_{name}"
            found[f"cvt.{written[0]}{written[1]}i.{kind}.f32"] = Instruction((kind, f), library=to, ftz=True)
        found[f"cvt.{written}.f32.f64"] = Instruction((f, "f64"), library=f"double2float_{name}")
    for written, name in (("rni", "rint"), ("rzi", "trunc"), ("rmi", "floor"), ("rpi", "ceil")):
        found[f"cvt.{written}.f32.f32"] = Instruction((f, f), library=name, ftz=True)
    for half, since, full in (("f16", 0, 0), ("bf16", 80, 90)):
        for op in ("add", "sub", "mul"):
            found |= {f"{op}{way}.{half}": Instruction((half,) * 3, f"create_f{op}", since=full) for way in ("", ".rn")}
        found[f"tanh.approx.{half}"] = _own_error("tanh", full or 75, half)
        found[f"ex2.approx.{half}"] = _own_error("exp2", full or 75, half, ftz=half == "bf16")
        found[f"fma.rn.{half}"] = Instruction((half,) * 4, "create_fma", since=since)
        found[f"max.{half}"] = Instruction((half,) * 3, "create_maxnumf", since=80)
        found[f"min.{half}"] = Instruction((half,) * 3, "create_minnumf", since=80)
        found[f"neg.{half}"] = Instruction((half, half), "create_fneg", since=since)
        found[f"abs.{half}"] = Instruction((half, half), "create_fabs", since=since)
        found[f"cvt.rn.{half}.f32"] = Instruction((half, f), "create_fp_trunc", since=since)
        found[f"cvt.rz.{half}.f32"] = Instruction((half, f), "create_fp_to_fp", since=since)
        found[f"cvt.f32.{half}"] = Instruction((f, half), "create_fp_ext", since=90 if half == "bf16" else 0)
    return found


INSTRUCTIONS: Mapping[str, Instruction] = _known()


def run(
    builder: Base, text: str, constraints: str, operands: Sequence[Handle], types: Sequence[Any], pack: int = 1
) -> list[Handle]:
    """The results of straight-line text. Raises UnsupportedOp with the user's line for everything else.

    `pack` 2: a register of 32 bits holds two halves, and f16x2 and bf16x2 are f16 and bf16 of each.
    """

    def refuse(why: str) -> NoReturn:
        builder.unsupported("inline_asm", why)
        raise AssertionError

    def compute(name: str, given: list[Handle]) -> Handle:
        single = _PAIR.sub(r"\1", name) if pack == 2 else name
        known = INSTRUCTIONS.get(single.replace(".ftz", ""))
        why = _hindrance(builder, single, known)
        why = why or ("it is of one half, and two lie in a register" if pack == 2 and single == name else "")
        if known is None or why:
            refuse(f"{name} has no rule: {why}")
        if len(given) != len(known.types) - 1:
            refuse(f"{name} takes {', '.join(known.types[1:])}")
        return _computed(builder, known, given)

    if not builder.ctx.profile.name.startswith(("sm_", "any")):
        refuse(f"{builder.ctx.profile.name} has no PTX")
    given = [getattr(t, "scalar", t) for t in types] + [h.dtype.scalar for h in operands]
    classes = [c.strip("=& ") for c in constraints.split(",")]
    here = f"here {', '.join(map(str, given))} as {constraints}"
    fitting = _PACKED if pack == 2 else _CLASSES
    if (
        pack not in (1, 2)
        or len(given) != len(classes)
        or any(c not in fitting.get(g, "") for g, c in zip(given, classes, strict=True))
    ):
        refuse(f"of {text.strip()[:40]} no such operands: {here}")
    kinds = {name: [_TYPES[t][0] for t in known.types[1:]] for name, known in INSTRUCTIONS.items()}
    kinds |= {f"{name}x2": found for name, found in kinds.items() if name.endswith("f16")}
    found = Straight(builder, operands, refuse, compute, kinds, len(types)).run(text)
    for one, kind in zip(found, given, strict=False):
        if one.dtype.scalar != kind:
            refuse(f"it gives {one.dtype.scalar}, {here}")
    return found


def _hindrance(builder: Base, name: str, known: Instruction | None) -> str:
    """Why an instruction cannot be taken; "" if it can."""
    device = builder.ctx.profile.name
    if known is None:
        kind = name.split(".")[0]
        near = sorted(n for n in INSTRUCTIONS if n.split(".")[0] == kind)
        return (
            f"of {kind} there are {', '.join(near[:6])}" if near else "its meaning or its error is not documented here"
        )
    if device.startswith("sm_") and int(re.sub(r"\D", "", device)) < known.since:
        return f"{device} does not have it"
    return "with flushed subnormals" if ".ftz" in name and not known.ftz else ""


def _computed(builder: Base, known: Instruction, operands: list[Handle]) -> Handle:
    result = _TYPES[known.types[0]][0]
    if known.method:
        extra = {"create_fp_trunc": (result,), "create_fp_ext": (result,), "create_fp_to_fp": (result, "RTZ")}
        found: Handle = getattr(builder, known.method)(*operands, *extra.get(known.method, ()))
        return found
    from render.interpreter.libdevice import computed

    if known.own is None or builder.vendor(known.library) is not None:
        found = computed(builder, known.library, result, operands)
    else:
        rule = LIBRARY[known.library]
        own = Rule(known.library, Shape.SPECIAL, rule.doc, known.own, 1, "function", rule.error)
        try:
            found = dispatch(own, VALUES[f"library {known.library}"])(builder, *operands)
        except MissingRule as missing:
            raise builder.ctx.lacks(known.library, missing) from None
    builder.emit(f"library {known.library}", operands, (found,))
    return found
