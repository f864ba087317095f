"""A witness without rounding: the computation of one element, every operation of it exact.

The same document and the same evaluator as for a bound, with other figures: every format is fp64, casts between floats
change nothing, functions have no error, matrix units sum in fp64. What is left is float64's own rounding, far below
what a claim about two formulas allows for (`render.judgement.unrounded`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render.witness.document import packed, unpacked

WIDE = "fp64"
_FORMATS = ("fmt", "src", "dst")
EXACT_DOT = {
    "block": 1, "fraction": 52, "rho": 0.0, "eps": 0.0, "truncate": "", "terms": 1, "extra": 0.0, "acc": WIDE,
    "flush": False, "floor": 0.0, "growth": 0.0, "emin": -1022, "promote": False, "chops": False, "convert": False,
    "subnormal": 0.0, "sequential": False,
}  # fmt: skip
"""Figures of a matrix unit that rounds nothing but the sums of chains, to float64."""


def unrounded(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a slice with the figures of exact arithmetic; its bound, which is that of the target, is open."""
    rules = document["rules"]
    functions = {f"{key.split()[0]} {WIDE}": {"r": 0.0, "a": 0.0, "ftz": False} for key in rules["functions"]}
    return {
        **document,
        "profile": "exact",
        "bound": {"low": "-inf", "high": "inf"},
        "rules": {
            **rules,
            "functions": functions,
            "dots": {kind: {**model, **EXACT_DOT} for kind, model in rules["dots"].items()},
            "overflow": {WIDE: "inf"},
            "double_rounding": {},
            "exp_via_exp2": False,
            "atomic_flush": False,
        },
        "nodes": [_node(node) for node in document["nodes"]],
    }


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    if node["attrs"].get("rounded"):  # a number around which its own rounding lies, and nothing else
        low, high = (unpacked(node.get(end, node["low"])) for end in ("low", "high"))
        return {**{key: x for key, x in node.items() if key != "high"}, "low": packed(low / 2 + high / 2)}
    attrs = {key: WIDE if key in _FORMATS else value for key, value in node["attrs"].items()}
    return {**node, "attrs": {**attrs, "mode": "rtne"} if "mode" in attrs else attrs}
