"""The one table of operations: every method of Triton's builder has a rule, is exact, or is unsupported with a reason.

The table is filled by shape of rule. Dispatch in the interpreter, `render ops` and the property tests are generated
from it, so an operation cannot be undocumented or untested. Names are builder methods without `create_` (Triton 3.9).
"""

from __future__ import annotations

from typing import Any

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic import selection
from interval_ops.functions import elementary as functions
from render.ops import errors as rule_errors
from render.ops.rule import EVERYWHERE, NON_NEGATIVE, Apply, Domain, Rule, Shape, exact_rules

RULES: dict[str, Rule] = {}


def _add(rule: Rule) -> None:
    if rule.op in RULES:
        raise ValueError(f"{rule.op} has two rules")
    RULES[rule.op] = rule


def passthrough(*ops: str) -> None:
    for op in ops:
        _add(Rule(op, Shape.PASSTHROUGH, "Moves values with their bounds; exact."))


def function(op: str, name: str = "", entry: str = "", domain: Domain = EVERYWHERE, doc: str = "") -> None:
    """A monotone function of one argument: the exact function `name` within the error `entry` of the profile."""
    name = name or op
    entry = entry or name
    about = doc or f"{entry} at both ends, widened by the target's documented error; outside its domain top."
    _function(op, Shape.MONOTONE, name, entry, domain, about)


def wave(op: str) -> None:
    doc = f"{op} at both ends and its extrema inside; the whole range for wide intervals beyond 2^20."
    _function(op, Shape.SPECIAL, op, op, EVERYWHERE, doc)


def _function(op: str, shape: Shape, name: str, entry: str, domain: Domain, doc: str) -> None:
    def apply(args: tuple[Any, ...], fmt: Any, profile: Any) -> Any:
        return functions.unary(name, args[0], fmt, profile, entry)

    _add(Rule(op, shape, doc, apply, 1, "function", rule_errors.function(entry), domain,
              f"[functions] {entry} of the profile", function=name, entry=entry))  # fmt: skip


def arithmetic_rule(op: str, shape: Shape, rule: Any, arity: int, doc: str) -> None:
    def apply(args: tuple[Any, ...], fmt: Any, profile: Any) -> Any:
        return rule(*args, fmt, profile)

    _add(Rule(op, shape, doc, apply, arity, "arith", rule_errors.rounding, source="IEEE 754-2019, 5.4.1"))


def integral(op: str, rule: Any) -> None:
    def apply(args: tuple[Any, ...], fmt: Any, profile: Any) -> Any:
        return rule(args[0], fmt, profile)

    _add(Rule(op, Shape.MONOTONE, f"{op} at both ends.", apply, error=rule_errors.integral, steps=True))


def division(op: str, kind: str) -> None:
    doc = "Quotients of the ends; a divisor with 0 inside gives [-inf, inf], 0/0 gives top."
    error, source = rule_errors.function(kind), f"[functions] {kind} of the profile"
    _add(Rule(op, Shape.SPECIAL, doc, _division(kind), 2, "function", error, source=source, entry=kind))


def _division(kind: str) -> Apply:
    return lambda args, fmt, profile: arithmetic.div(args[0], args[1], fmt, profile, kind)


def exact(op: str, shape: Shape, apply: Apply, arity: int, doc: str) -> None:
    _add(Rule(op, shape, doc, apply, arity))


def extremum(op: str, rule: Any, propagate: bool) -> None:
    nan = "NaN propagates" if propagate else "NaN yields to the other operand"
    exact(op, Shape.SELECTION, lambda args, fmt, profile: rule(*args, propagate), 2, f"Extrema of the ends; {nan}.")


def comparison(op: str, name: Any) -> None:
    nan = "true" if name == "ne" else "false"
    doc = f"Surely, possibly or not at all; {nan} on NaN, open on top."
    exact(op, Shape.COMPARISON, lambda args, fmt, profile: selection.compare(name, *args), 2, doc)


def external(shape: Shape, cause: str | None, error: Any, doc: str, *ops: str, tight: bool = True) -> None:
    """Rules whose mechanics live elsewhere: memory, conversions, pending sums."""
    for op in ops:
        _add(Rule(op, shape, doc, None, 1, cause, error, tight=tight))


passthrough("reshape", "trans", "broadcast", "splat", "unsplat", "expand_dims", "join", "split", "cat", "gather")

function("exp", doc="e^x and 2^fl(x log2 e) at both ends, widened by the error of ex2.")
function("exp2")
function("log", domain=NON_NEGATIVE)
function("log2", domain=NON_NEGATIVE)
function("sqrt", domain=NON_NEGATIVE)
function("precise_sqrt", "sqrt", "sqrt_rn", NON_NEGATIVE)
function("rsqrt", domain=NON_NEGATIVE)
function("erf")
integral("floor", arithmetic.floor)
integral("ceil", arithmetic.ceil)
exact("fneg", Shape.MONOTONE, lambda args, fmt, profile: arithmetic.neg(args[0]), 1, "Ends negated and swapped.")
exact("fabs", Shape.UNIMODAL, lambda args, fmt, profile: arithmetic.abs_(args[0]), 1, "Magnitudes; 0 if inside.")

wave("sin")
wave("cos")

arithmetic_rule("fadd", Shape.LINEAR, arithmetic.add, 2, "Sums of the ends, exact and rounded.")
arithmetic_rule("fsub", Shape.LINEAR, arithmetic.sub, 2, "Differences of the ends, exact and rounded.")
arithmetic_rule("fmul", Shape.BILINEAR, arithmetic.mul, 2, "Products of the ends, exact and rounded; x*x is a square.")
arithmetic_rule("fma", Shape.BILINEAR, arithmetic.fma, 3, "a*b + c rounded once; twice too where no fused bf16 exists.")
division("fdiv", "div")
division("precise_divf", "div_rn")
_add(Rule(
    "frem", Shape.SPECIAL, "x - trunc(x/y) y as compiled and as C defines it; both quotients at a jump.",
    lambda args, fmt, profile: arithmetic.fmod(args[0], args[1], fmt, profile),
    2, "function", rule_errors.remainder, tight=False,
))  # fmt: skip

exact("select", Shape.SELECTION, lambda args, fmt, profile: selection.select(*args[0], *args[1:]), 3,
      "The chosen operand; the hull of both where the condition is open.")  # fmt: skip
extremum("maxnumf", selection.maximum, propagate=False)
extremum("minnumf", selection.minimum, propagate=False)
extremum("maximumf", selection.maximum, propagate=True)
extremum("minimumf", selection.minimum, propagate=True)
exact("clampf", Shape.SELECTION, lambda args, fmt, profile: selection.clamp(*args), 3, "min(max(x, low), high).")

for _op, _name in (("OLT", "lt"), ("OLE", "le"), ("OGT", "gt"), ("OGE", "ge"), ("OEQ", "eq"), ("UNE", "ne")):
    comparison(f"fcmp{_op}", _name)

external(Shape.CAST, "cast", rule_errors.cast, "Hull of both ends and of both ends rounded; widening is exact.",
         "fp_trunc", "fp_ext", "fp_to_fp")  # fmt: skip
CASTS = tuple(op for op, rule in RULES.items() if rule.shape is Shape.CAST)
"""Conversions between floats."""
external(Shape.CAST, "cast", rule_errors.int_to_float, "Integers rounded to nearest; small ones are exact.",
         "si_to_fp", "ui_to_fp")  # fmt: skip
external(Shape.CAST, None, None, "Both ends cut; tainted where the type may not hold one.", "fp_to_si", "fp_to_ui",
         tight=False)  # fmt: skip
external(Shape.BITS, None, None, "Bits of a point; tainted for an interval.", "bitcast", tight=False)

external(Shape.REDUCTION, "accumulation", rule_errors.summation, "tl.sum, prod, max, min, argmax, Welford: any order.",
         "reduce", tight=False)  # fmt: skip
external(Shape.REDUCTION, "accumulation", rule_errors.summation,
         "Prefixes in any order; linear recurrences in any bracketing.", "scan", tight=False)  # fmt: skip
external(Shape.DOT, "accumulation", rule_errors.dot, "Order-free sum over the total K of a chain of dots.", "dot",
         tight=False)  # fmt: skip
external(Shape.DOT, "accumulation", rule_errors.scaled_dot,
         "Block-scaled numbers as the target widens them, then summed as any dot.", "dot_scaled",
         tight=False)  # fmt: skip

external(Shape.MEMORY, None, None, "The bounds stored with each element, if its bits are unchanged.",
         "load", "masked_load", "atomic_load", "descriptor_load", "descriptor_gather")  # fmt: skip
external(Shape.MEMORY, None, None, "Bounds are stored beside the bits; a mask that is open gives the hull.",
         "store", "masked_store", "atomic_store", "descriptor_store", "descriptor_scatter")  # fmt: skip
external(Shape.MEMORY, "accumulation", rule_errors.atomic, "Closed when the launch ends, for every order.",
         "atomic_rmw", "descriptor_reduce", tight=False)  # fmt: skip
external(Shape.MEMORY, None, None, "Waits while other programs run; a time limit is refused.", "atomic_poll",
         tight=False)  # fmt: skip
external(Shape.MEMORY, None, None, "Runs program by program; one order of many.", "atomic_cas", tight=False)


_INTEGERS = """
    add sub mul sdiv udiv srem urem and or xor shl lshr ashr iabs umulhi maxsi maxui minsi minui int_cast
    icmpEQ icmpNE icmpSLT icmpSLE icmpSGT icmpSGE icmpULT icmpULE icmpUGT icmpUGE
"""
_ADDRESSES = """
    addptr ptr_to_int int_to_ptr make_range get_program_id get_num_programs make_tensor_descriptor
"""
_NO_VALUE = "barrier assert assume print grid_dependency_wait grid_dependency_launch_dependents"
# Structure of the compiler's IR around `reduce`, `scan` and `map_elementwise`, which the interpreter replaces whole.
_BLOCK_POINTERS = "make_block_ptr advance tensor_pointer_load tensor_pointer_store"  # until Triton 3.8
_STRUCTURE = "map_elementwise map_elementwise_ret block_with_parent reduce_ret scan_ret tensor_descriptor_type name_loc"

EXACT: dict[str, Rule] = {
    **exact_rules(Shape.INTEGER, "Integers, as the machine computes them.", _INTEGERS),
    **exact_rules(Shape.REDUCTION, "How many integers fall into each bin.", "histogram"),
    **exact_rules(Shape.ADDRESS, "Addresses, indices and program numbers.", f"{_ADDRESSES} {_BLOCK_POINTERS}"),
    **exact_rules(Shape.STRUCTURE, "It has no value.", f"{_NO_VALUE} {_STRUCTURE}"),
}
"""Builder methods that carry no rounding: they run on concrete values."""

UNSUPPORTED: dict[str, str] = {
    "approx_divf": "the error of div.approx is documented only for divisors up to 2^126; write x / y or tl.fdiv(x, y)",
    "extern_elementwise": "the error of an arbitrary device library function is not known",
    "inline_asm": "assembly other than straight-line PTX of instructions with a documented error",
}
"""Builder methods without a rule, and why."""
