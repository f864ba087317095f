"""What a target may do: one frozen `Profile` per device, read from `profiles/*.toml`.

A profile is data. Every number in a file is an expression such as `"8*2^-24 + 2^-23"`, evaluated exactly and rounded
up to float64, and every table entry names its `source`, a key of the file's `[sources]`. A file may `inherit` another
one and then states only the differences. Unknown keys are errors that name the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from interval_ops.formats.model import Overflow
from interval_ops.profiles.facts import DeviceFacts

CAUSES: dict[str, str] = {
    "operand": "operands cut to fewer bits before a tensor-core product (tf32, bf16x3)",
    "accumulation": "order and rounding of sums of fp32 precision or better",
    "lowacc": "sums accumulated below fp32 precision",
    "cast": "rounding of a conversion",
    "function": "documented error of an approximate function, division included",
    "arith": "rounding of elementwise + - * and fma",
}
"""Why a bound has width; `Profile.mute` switches one of them off."""


NEWEST = (3, 9)
"""The newest version of Triton whose lowering the profiles describe."""

SUM_ORDERS: dict[str, str] = {
    "any": "sums and atomics in any order",
    "tree": "reductions as balanced trees, fma dots along k, as Triton lowers them; atomics in any order",
}
"""What may be assumed of the order of additions inside one program."""

CONTRACTIONS: dict[str, str] = {
    "any": "with or without fma contraction",
    "on": "products that are added may be contracted to fma",
    "off": "without fma contraction",
}
"""What the compiler does with a product that is added. Bounds hold the exact product beside the rounded one whatever is
chosen, because they hold the exact result of the kernel's formula; so they hold every contraction of it as well."""

_FP8 = re.compile(r"^fp8e\w+?(?=_|$)")


class MissingRule(LookupError):
    """The profile has no error bound for this function or dot; nothing is guessed in its place.

    `reason` says why where the profile knows, e.g. that the target refuses to compile it.
    """

    def __init__(self, name: str, profile: str, reason: str = "") -> None:
        super().__init__(f"profile {profile!r} has no rule for {name!r}" + (f": {reason}" if reason else ""))
        self.name = name
        self.profile = profile
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FnError:
    """The computed value lies in exact * (1 +- r) +- a.

    `ftz`: subnormal inputs may be read as 0, and a subnormal result may come out as 0, on top of r and a. `huge`: a
    result of at least this magnitude may come out infinite. `breaks`: a subnormal argument may give anything, NaN too.
    From arguments of magnitude `until` on, the value is within `beyond` of the correctly rounded one instead; infinite:
    nothing is documented there.
    """

    r: float
    a: float = 0.0
    ftz: bool = False
    source: str = ""
    huge: float = math.inf
    breaks: bool = False
    until: float = math.inf
    beyond: float = 0.0


@dataclass(frozen=True, slots=True)
class DotModel:
    """How a matrix unit sums: the block-FMA model, or a chain of fused multiply-adds when `block` is 1.

    A block takes at most `block` exact products and the accumulator, aligns all terms to the largest exponent,
    truncates each to `fraction` bits, adds exactly and rounds once with relative error `rho`.

    `eps` and `floor` bound the error of one operand pair before the products (relative; absolute per operand),
    `growth` the relative excess of the magnitudes of split products over |a b|. `emin` is the smallest normal exponent
    of the operands as the unit sees them (it aligns subnormals there, with an unnormalised significand). `truncate`:
    the format to which operands are, or may be, cut (tf32), or widened together with their scale (bf16); with `rounds`
    they may be rounded to it instead, to nearest, and `growth` holds what that adds to magnitudes.
    `promote`: partial sums that a `+` adds to an accumulator stay separate (no folding into the unit's accumulator).
    `overflow`: what an integer accumulator does past its range.

    `chops`: everything the unit discards it discards towards zero, the rounding of the block included. `flush`:
    subnormal operands and results become zero. `convert`: each dot sums in fp32 and converts its result to `acc`.
    `subnormal` adds to `emin` with block-scaled operands: the ratio by which the alignment of a product of
    subnormals may exceed the largest product. `sequential`: a chain that Triton lowers to fused multiply-adds along k.
    `apart`: products are aligned among themselves, only their sum with the accumulator, which costs `extra`.
    """

    block: int
    fraction: int
    rho: float
    eps: float = 0.0
    truncate: str = ""
    terms: int = 1
    extra: float = 0.0
    acc: str = "fp32"
    flush: bool = False
    source: str = ""
    floor: float = 0.0
    growth: float = 0.0
    emin: int = -126
    promote: bool = False
    overflow: str = ""
    chops: bool = False
    convert: bool = False
    subnormal: float = 0.0
    sequential: bool = False
    apart: bool = False
    rounds: bool = False

    @property
    def aligned(self) -> float:
        """n_t * 2**-F, what alignment loses per block relative to the largest term; 0 for a chain.

        An fp32 accumulator handed in from outside need not fit F < 23 bits, so it counts as one more truncated term.
        """
        if self.block == 1:
            return 0.0
        return (self.block + (self.fraction < 23)) * 2.0**-self.fraction

    @property
    def theta(self) -> float:
        """Relative error of one block with respect to the sum of magnitudes that goes into it."""
        return self.aligned + self.rho + self.extra

    @property
    def cause(self) -> str:
        low = self.rho > 2.0**-22 or (self.block > 1 and self.fraction < 20) or self.acc == "fp16"
        return "lowacc" if low else "accumulation"


@dataclass(frozen=True, slots=True)
class OlderCast:
    """A conversion as Triton lowered it before version `below`.

    `via` as in [cast.via]; `ties_away`: ties go away from zero (half is added, the rest cut); `overflow` what numbers
    past the largest become; results of magnitudes below `until` may be off by `floor`.
    """

    below: tuple[int, int]
    via: str = ""
    ties_away: bool = False
    overflow: Overflow = "inf"
    floor: float = 0.0
    until: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class RefusedCast:
    """Why Triton does not compile a conversion for the target, from version `since` on."""

    reason: str
    since: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Profile:
    """One target: errors of functions, models of dots, conversions, and the causes that are switched off.

    `sum_order` and `contraction` are keys of `SUM_ORDERS` and `CONTRACTIONS`; `triton` is the version that compiles for
    the target, `tree_since` the first one whose reductions are balanced trees there (None: not known of any). `device`:
    what host code is told of the target (None: nothing, it is no GPU).
    """

    name: str
    title: str
    confidence: str
    functions: Mapping[str, FnError]
    dots: Mapping[str, DotModel]
    exp_via_exp2: bool
    cast_overflow: Mapping[str, Overflow]
    cast_double_rounding: Mapping[str, str]
    atomic_flush_fp32: bool
    default_input_precision: str
    off: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = field(default=(), repr=False)
    refused: Mapping[str, str] = field(default_factory=dict, repr=False)
    older_casts: Mapping[str, OlderCast] = field(default_factory=dict, repr=False)
    refused_casts: Mapping[str, tuple[RefusedCast, ...]] = field(default_factory=dict, repr=False)
    tree_since: tuple[int, int] | None = None
    sum_order: str = "any"
    contraction: str = "any"
    triton: tuple[int, int] = NEWEST
    device: DeviceFacts | None = None
    library: bool = False
    """PyTorch's own kernels on one machine: what it says of functions holds for host code as it stands."""

    def fn(self, name: str, fmt: str = "fp32") -> FnError:
        """Error of function `name`. Raises MissingRule.

        fp16 and bf16 arguments are computed in fp32, within the error of `name`, or of `name@fp16` where a target has
        a sequence of its own; the rounding to the narrow format comes on top.
        """
        special = f"{name}@{fmt}"
        if special in self.functions:
            return self.functions[special]
        key = special if fmt == "fp64" else name
        try:
            return self.functions[key]
        except KeyError:
            raise MissingRule(key, self.name, self.refused.get(key, "")) from None

    def through_exp2(self, entry: str) -> bool:
        """Whether the target computes this function as ex2(fl(x fl(log2 e))); its entry is then the error of ex2."""
        return self.exp_via_exp2 and entry in ("exp", "fast_expf")

    def inside(self, name: str) -> Profile:
        """The same target as the library's `name` calls its functions: `gelu.erf` is the erf inside of gelu."""
        return _inside(self, name) if any(key.startswith(f"{name}.") for key in self.functions) else self

    def dot(self, kind: str) -> DotModel:
        """Model of dots of `kind`. Raises MissingRule, with the reason where the target refuses this kind.

        Kinds: fp16, bf16, fp8, fp16acc and fp8_fp16acc (fp16 accumulator), the input precisions tf32, ieee, ... of fp32
        operands, fp64, int8, and mxfp8 and mxfp4 where the target multiplies block-scaled operands itself. A single fp8
        format (`fp8e5`, `fp8e4nv_fp16acc`) has the model of `fp8` unless the profile knows better.
        """
        refused = self.refused.get(f"dot {kind}", "")
        if not refused:
            for key in (kind, _FP8.sub("fp8", kind)):
                if key in self.dots:
                    return self.dots[key]
        raise MissingRule(f"dot {kind}", self.name, refused)

    def older_cast(self, src: str, dst: str) -> OlderCast | None:
        """How the version that compiles for the target converts, where newer ones do it otherwise."""
        older = self.older_casts.get(f"{src}->{dst}")
        return older if older is not None and self.triton < older.below else None

    def check_cast(self, src: str, dst: str, mode: str = "rtne") -> None:
        """MissingRule, with the reason, where the version of Triton does not compile this conversion for the target.

        A program that never runs has no bounds. Constants are converted by the compiler itself: do not ask for them.
        """
        for refused in self.refused_casts.get(f"{src}->{dst} {mode}", ()):
            if self.triton >= refused.since:
                raise MissingRule(f"cast {src}->{dst}", self.name, refused.reason)

    def mute(self, *causes: str) -> Profile:
        """The same target with these causes adding no error (float64 slack stays). ValueError for an unknown cause."""
        for cause in causes:
            if cause not in CAUSES:
                raise ValueError(f"unknown cause {cause!r}; known: {', '.join(CAUSES)}")
        return self if self.off.issuperset(causes) else replace(self, off=self.off | frozenset(causes))

    def muted(self, cause: str) -> bool:
        return cause in self.off

    def chosen(
        self, sum_order: str | None = None, contraction: str | None = None, triton: tuple[int, int] | None = None
    ) -> Profile:
        """The same target under these assumptions; None keeps one. ValueError for an unknown or impossible choice."""
        order, fused = sum_order or self.sum_order, contraction or self.contraction
        for what, choice, known in (("sum order", order, SUM_ORDERS), ("fp contraction", fused, CONTRACTIONS)):
            if choice not in known:
                raise ValueError(f"unknown {what} {choice!r}; known: {', '.join(known)}")
        if order == "tree" and self.tree_since is None:
            raise ValueError(f"the order of sums is not known for profile {self.name!r}; only any order is")
        version = triton or self.triton
        same = (order, fused, version) == (self.sum_order, self.contraction, self.triton)
        return self if same else replace(self, sum_order=order, contraction=fused, triton=version)

    @property
    def known_order(self) -> bool:
        """Whether additions inside one program are assumed to come as Triton lowers them."""
        return self.sum_order == "tree"

    @property
    def trees(self) -> bool:
        """Whether reductions are balanced trees: assumed, and true of the version that compiles for the target."""
        return self.known_order and self.tree_since is not None and self.triton >= self.tree_since

    def __hash__(self) -> int:
        return hash((self.name, self.off, self.sum_order, self.contraction, self.triton))


@cache
def _inside(profile: Profile, name: str) -> Profile:
    own = {key.removeprefix(f"{name}."): e for key, e in profile.functions.items() if key.startswith(f"{name}.")}
    return replace(profile, functions={**profile.functions, **own})


def load_profile(name: str) -> Profile:
    """The profile called `name` (or by an alias: a100, h100, ...), parsed once per process.

    Raises ValueError for another name.

        render.load_profile("h100").name    # "sm_90"
    """
    from interval_ops.profiles import file as profile_file

    known = profile_file.index()
    key = name.strip().lower()
    if key not in known:
        aliases = ", ".join(sorted(a for a in known if known[a] != a))
        raise ValueError(f"unknown device profile {name!r}; known: {', '.join(profile_names())} (aliases: {aliases})")
    return profile_file.load(known[key])


def profile_names() -> list[str]:
    """Names of the profiles, without aliases, sorted.

    Each is a value of `device`.

        "sm_90" in render.profile_names()
    """
    from interval_ops.profiles import file as profile_file

    return sorted(set(profile_file.index().values()))


def describe(value: Any) -> str:
    """A number of a profile in units of the nearest power of two, e.g. `2.5*2^-23`."""
    from math import frexp

    if value == 0:
        return "0"
    mantissa, exponent = frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 else f"{mantissa * 2:.4g}*2^{exponent - 1}"
