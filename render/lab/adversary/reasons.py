"""Why attacks on some kernels and rules stay far from the ends of their bounds: data for the report.

A closest approach below `campaign.FAR` asks whether the attack is weak or the bound needlessly wide. Names are those
of the report, `rule OP` for an entry of the rule table; `*` stands for anything.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_POINTS = "exact: the bounds are points, there is no width to approach"
_MIDDLE = (
    "correctly rounded in fp64: the exact value lies beside the one legal result and float64 cannot hold it, so the "
    "bounds are its neighbours and the result their middle"
)
_OWN = (
    "in fp64 most of the width is the error of our own evaluation in float64, 2^-50 for a library whose errors are not "
    "proved; only wider arithmetic could take it away"
)
_PARTS = (
    "the products of the parts count in full, in any order and over all of K: the small ones could lose a unit each "
    "only beside a large sum. Targets sum every dot from zero, and few significands lose a unit in all their products"
)

EXPLAINED: dict[str, str] = {
    "rule fcmp*": "three-valued: a comparison has no width to approach",
    "zoo argmax": f"a maximum of points is {_POINTS}",
    "zoo persistent": f"doubling is {_POINTS}",
    "zoo prefix chain": "a program reads what another stored: tainted, so no element has bounds",
    "libdevice rint fp32": f"sums of small integers are {_POINTS}",
    "max fp32 *": f"a maximum is {_POINTS}",
    "fma fp64": _MIDDLE,
    "div fp64": _MIDDLE,
    "sqrt fp64": _MIDDLE,
    "log fp64": _OWN,
    "sin fp64": _OWN,
    "exp fp64": _OWN,
    "dot fp32 * bf16x3 *": _PARTS,
    "dot fp32 * bf16x6 *": _PARTS,
    "dot fp32 * tf32x3 *": _PARTS,
    "matmul_split_k.py": (
        "four programs add their parts: each part may be as wrong as its own 32 products allow, and only the part that "
        "holds the large product can stagnate"
    ),
    "attend fp32 *": (
        "the errors of exp, sum and division of every weight count in one direction; a sum of weights that rounds up "
        "divides them all down, so that they cannot all be reached together"
    ),
}


def reason(name: str) -> str:
    """Why nothing comes closer; empty where nothing was written down."""
    for pattern, text in EXPLAINED.items():
        if fnmatchcase(name, pattern):
            return text
    return ""
