"""Where knowledge about single operations stands: literal tables keyed by operation names, and files that name one.

A table is a dictionary display, a set, list or tuple of strings, or a string that is split, at least three of whose
entries are names of operations and at least half of all. `python tests/operation_tables.py [ROOT]` prints the figures.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("interval_ops", "render")
FEW = 3
"""Names that make a table."""

_LANGUAGE = """
    add addptr advance and approx_divf ashr atomic_cas atomic_load atomic_rmw atomic_store bitcast broadcast cat ceil
    clampf cos descriptor_gather descriptor_load descriptor_reduce descriptor_scatter descriptor_store dot dot_scaled
    erf exp exp2 expand_dims extern_elementwise fabs fadd fcmpOEQ fcmpOGE fcmpOGT fcmpOLE fcmpOLT fcmpUNE fdiv floor
    fma fmul fneg fp_ext fp_to_fp fp_to_si fp_to_ui fp_trunc frem fsub gather histogram iabs icmpEQ icmpNE icmpSGE
    icmpSGT icmpSLE icmpSLT icmpUGE icmpUGT icmpULE icmpULT inline_asm int_cast int_to_ptr join load log log2 lshr
    make_block_ptr make_range map_elementwise masked_load masked_store maximumf maxnumf maxsi maxui minimumf minnumf
    minsi minui mul or precise_divf precise_sqrt print ptr_to_int reduce reshape rsqrt scan sdiv select shl si_to_fp
    sin splat split sqrt srem store sub trans udiv ui_to_fp umulhi unsplat urem xor
"""
_VENDOR = """
    abs acos acosh add_rn asin asinh atan atan2 atanh brev byte_perm cbrt clz copysign cospi cosh cyl_bessel_i0
    cyl_bessel_i1 div_rn erfc erfcinv erfcx erfinv exp10 expm1 fast_cosf fast_expf fast_logf fast_log2f fast_sinf fdim
    ffs finitef fma_rn fmod hadd hiloint2double hypot ilogb isfinited isinf isnan int_as_float j0 j1 jn ldexp lgamma
    llrint llround log10 log1p logb mul24 mul_rn mulhi nearbyint nextafter norm3d norm4d normcdf normcdfinv popc pow
    rcbrt rcp_rn remainder rhadd rhypot rint rnorm3d rnorm4d round rsqrt_rn sad saturatef scalbn signbit sinh sinpi
    sqrt_rn sub_rn tan tanh tgamma trunc uint_as_float y0 y1 yn
"""
_RECORDED = "all any atomic_sum cast fold from_integer from_truth max min prod ranked recurrence scaled sum welford"
_TENSORS = "clamp cumprod cumsum div gelu maximum mean minimum relu sigmoid silu softmax square where"
NAMES = frozenset(f"{_LANGUAGE} {_VENDOR} {_RECORDED} {_TENSORS}".split())
"""What the count looks for, written out so that it does not depend on the tables that it counts."""


def _bare(name: str) -> str:
    return name.removeprefix("library ").removeprefix("int ")


def entries(node: ast.AST) -> list[str]:
    """The strings that a literal holds, or has for keys."""
    if isinstance(node, ast.Dict):
        return [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return [e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        text = node.func.value
        return text.value.split() if isinstance(text, ast.Constant) and isinstance(text.value, str) else []
    return []


def is_table(names: list[str]) -> bool:
    known = sum(_bare(name) in NAMES for name in names)
    return known >= FEW and 2 * known >= len(names)


def files(root: Path = ROOT) -> Iterator[Path]:
    return (path for top in SOURCES for path in sorted((root / top).rglob("*.py")))


def tables(root: Path = ROOT) -> Counter[str]:
    """File -> number of literal tables in it."""
    found: Counter[str] = Counter()
    for path in files(root):
        count = sum(is_table(entries(node)) for node in ast.walk(ast.parse(path.read_text())))
        if count:
            found[str(path.relative_to(root))] = count
    return found


def places(name: str, root: Path = ROOT) -> list[str]:
    """Source files in which the operation's name stands."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return [str(path.relative_to(root)) for path in files(root) if word.search(path.read_text())]


def main() -> None:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    found = tables(root)
    for path, count in found.most_common():
        print(f"{count:3}  {path}")
    print(f"{found.total()} tables in {len(found)} files")
    for name in ("rsqrt", "tanh", "cyl_bessel_i0", "fma"):
        print(f"{name}: {len(places(name, root))} files")


if __name__ == "__main__":
    main()
