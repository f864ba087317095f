"""The page docs/ops.md: every operation with its error on every device profile and the tests that cover it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from interval_ops.profiles.profile import Profile, load_profile, profile_names
from render.ops import library
from render.ops import table as rules
from render.ops.rule import Rule, Shape

_TABLE = "tests/render/ops/test_table.py"
TESTS: dict[Shape, tuple[str, ...]] = {
    Shape.PASSTHROUGH: ("tests/render/interpreter/test_public_api.py",),
    Shape.MONOTONE: (_TABLE, "tests/interval_ops/functions/test_elementary.py"),
    Shape.LINEAR: (_TABLE, "tests/interval_ops/arithmetic/test_rule.py"),
    Shape.BILINEAR: (_TABLE, "tests/interval_ops/arithmetic/test_rule.py"),
    Shape.UNIMODAL: (_TABLE, "tests/interval_ops/arithmetic/test_rule.py"),
    Shape.SELECTION: (_TABLE, "tests/interval_ops/arithmetic/test_selection.py"),
    Shape.COMPARISON: (_TABLE, "tests/interval_ops/arithmetic/test_selection.py"),
    Shape.CAST: ("tests/interval_ops/formats/test_casting.py", "tests/interval_ops/formats/test_cast_interval.py"),
    Shape.BITS: ("tests/render/interpreter/test_open_integers.py", "tests/render/interpreter/test_lift.py"),
    Shape.REDUCTION: ("tests/interval_ops/reduction/test_rule.py", "tests/interval_ops/reduction/test_scan.py"),
    Shape.DOT: ("tests/interval_ops/dot/test_executions.py", "tests/render/interpreter/builder/test_scaled_dots.py"),
    Shape.MEMORY: ("tests/render/interpreter/memory", "tests/interval_ops/reduction/test_atomics.py"),
    Shape.SPECIAL: (
        _TABLE,
        "tests/interval_ops/functions/test_elementary.py",
        "tests/interval_ops/arithmetic/test_rule.py",
    ),
}
"""Where rules of a shape are tested; those of the table are parametrised from it. Exact operations have none."""

LIBRARY_TESTS = (
    "tests/render/ops/test_library.py", "tests/interval_ops/functions/test_elementary.py",
    "tests/interval_ops/library/test_joint.py",
    "tests/interval_ops/functions/test_bessel.py", "tests/interval_ops/functions/test_bessel_orders.py",
    "tests/render/interpreter/test_libdevice.py",
)  # fmt: skip

LANGUAGE: dict[str, tuple[str, str]] = {
    "tl.sort, tl.topk, tl.bitonic_merge": (
        "Lower and upper ends ordered apart; rows with NaN are open.", "tests/render/interpreter/test_ordering.py"),
    "tl.flip": ("Moves values with their bounds; exact.", "tests/render/interpreter/test_ordering.py"),
    "tl.map_elementwise": (
        "Every element runs as a program; an open branch taints.", "tests/render/interpreter/test_mapping.py"),
    "tl.reduce, tl.associative_scan with another combine function": (
        "Pairs of a maximum and a sum of exponentials: any order. Others: pairwise tree, or one after the other; "
        "tainted where the function rounds, RND213 where grouping decides.",
        "tests/render/interpreter/test_combine.py"),
}  # fmt: skip
"""What the language layer replaces as a whole, and where it is tested."""

_FAMILIES = {"NVIDIA": ("any", "sm_"), "AMD": ("gfx",), "CPU": ("torch-cpu", "inductor-cpu")}

_HEAD = """# Operations

Written by `make docs` from the rule tables in `render/ops/table.py` and `render/ops/library.py`; edit those.

A bound contains the exact result and every result that the device may return. `x(1 +- r) +- a` is the error of a
function around its exact value; `ieee` rounds everything correctly; NVIDIA stands for the profiles `any` and `sm_*`,
AMD for `gfx*`, CPU for PyTorch as a reference. A profile without an entry makes the verdict Inconclusive.
*Loose* marks rules whose bound may be wider than need be.
"""


@cache
def page() -> str:
    profiles = {name: load_profile(name) for name in profile_names()}
    parts = [_HEAD, "## Language\n", *_rules(rules.RULES.values(), profiles, None)]
    parts += [f"### {names}\n\n{doc}\n\nTests: `{test}`\n" for names, (doc, test) in LANGUAGE.items()]
    parts += ["## Vendor library", f"Names of `tl.extra.libdevice`. Tests: {_files(LIBRARY_TESTS)}\n"]
    parts += _rules(library.LIBRARY.values(), profiles, ())
    parts += ["### Conversions, bits and predicates\n"]
    parts += _list({name: rule.doc for name, rule in library.CONVERSIONS.items()})
    parts += [
        "\n## Exact\n",
        "Integers, addresses and the structure of the compiler's IR; library functions of integers.\n",
    ]
    parts += [", ".join(f"`{op}`" for op in sorted({*rules.EXACT, *library.INTEGERS})) + "\n"]
    parts += ["## Not supported\n", "A kernel that uses one is Inconclusive (RND302), with this reason.\n"]
    parts += _list({**rules.UNSUPPORTED, **library.REFUSED})
    return "\n".join(parts) + "\n"


def _rules(table: Iterable[Rule], profiles: Mapping[str, Profile], tests: tuple[str, ...] | None) -> Iterator[str]:
    """One section per distinct text; operations that share it share the section."""
    sections: dict[str, list[str]] = {}
    for rule in table:
        loose = "" if rule.tight else " *Loose.*"
        errors = "\n".join(f"- {who}: {text}" for who, text in _errors(rule, profiles))
        where = "" if tests is not None else f"\nTests: {_files(TESTS[rule.shape])}\n"
        sections.setdefault(f"{rule.doc}{loose}\n\n{errors}\n{where}", []).append(rule.op)
    for text, ops in sections.items():
        yield f"### {', '.join(ops)}\n\n{text}"


def _errors(rule: Rule, profiles: Mapping[str, Profile]) -> Iterator[tuple[str, str]]:
    """(profiles, error term) for each distinct text; one line for an exact operation."""
    if rule.error is None:
        yield "all", "exact"
        return
    texts: dict[str, list[str]] = {}
    for name, profile in profiles.items():
        try:
            text = rule.error(profile)
        except LookupError as error:
            text = str(error).partition("no rule for")[2].partition(": ")[2] or "no documented error"
        texts.setdefault(text, []).append(name)
    for text, names in texts.items():
        yield "all" if len(texts) == 1 else ", ".join(_families(names, profiles)), text


def _families(names: list[str], profiles: Iterable[str]) -> Iterator[str]:
    rest = list(names)
    for family, starts in _FAMILIES.items():
        members = [name for name in profiles if name.startswith(starts)]
        if set(members) <= set(rest):
            yield family
            rest = [name for name in rest if name not in members]
    yield from rest


def _files(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _list(table: Mapping[str, str]) -> Iterator[str]:
    """Names that share a text on one line."""
    texts: dict[str, list[str]] = {}
    for name, text in table.items():
        texts.setdefault(text, []).append(name)
    for text, names in texts.items():
        yield f"- {', '.join(f'`{name}`' for name in sorted(names))}: {text}"
