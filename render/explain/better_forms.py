"""Stable forms of what loses digits, by the operations that make the operands of a cancelling operation."""

from __future__ import annotations

from render.trace.model import ABSENT, LEAF, Node, Slice


def better_form(found: Slice, node: Node, k: int) -> str:
    """The stable form of value k of an operation; "" where none is known."""
    makers = [found.node_of(int(o[k])) for o in node.operands if o.ndim == 1 and o[k] != ABSENT]
    names = {_plain(m) for m in makers}
    if node.op in ("log", "log2") and makers and _plain(makers[0]) == "fadd":
        return "log1p(x) for log(1 + x), a maximum taken out first for a log of a sum of exp"
    if node.op not in ("fsub", "fadd"):
        return ""
    for wanted, text in _FORMS:
        if wanted <= names:
            return text
    return "rewrite the difference so that its operands are not nearly equal"


def _plain(node: Node) -> str:
    return str(node.attrs["source"]) if node.op == LEAF else node.op.removeprefix("library ")


_FORMS: tuple[tuple[frozenset[str], str], ...] = tuple((frozenset(names.split()), text) for names, text in (
    ("exp constant", "libdevice.expm1(x) for exp(x) - 1"),
    ("exp2 constant", "libdevice.expm1(x * log(2)) for exp2(x) - 1"),
    ("exp", "sinh, or exp(y) * expm1(x - y) for exp(x) - exp(y)"),
    ("fdiv constant", "libdevice.tanh(x), or expm1, for 2 / (1 + exp(-2 x)) - 1"),
    ("cos constant", "2 sin(x/2)^2 for 1 - cos(x)"),
    ("erf constant", "libdevice.erfc(x) for 1 - erf(x)"),
    ("tanh constant", "2 / (exp(2 x) + 1) for 1 - tanh(x)"),
    ("sqrt", "(a - b) / (sqrt(a) + sqrt(b)) for sqrt(a) - sqrt(b)"),
    ("log", "log1p((x - y) / y) for log(x) - log(y)"),
    ("fdiv fmul", "two passes: the mean first, then the mean of (x - mean)^2 (or Welford's)"),
    ("sum fmul", "the sum of the squares of differences instead of the difference of sums of squares"),
))  # fmt: skip
