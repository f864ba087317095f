"""A second look at modules: outputs whose bound is hollow, by slopes; and which operation of one loses the digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from render.interpreter.hosted.products import LinearSums
from render.network.capture import Key, Model, copied, unchanged
from render.network.declared import in_force
from render.network.judge import LIMIT, Sight
from render.network.pairs import Pair
from render.network.slopes import linearised
from render.network.walks import UNIT, plain_attention
from render.reference.local_error import Unit, base_name
from render.reference.running_error import Movable, error_of
from render.reference.shadow import F64, default_dtype, in_parts, is_float
from render.result.defects import caught

MOST = 4
"""Outputs per border that are swept."""
HALF = 2.0**12
"""Half of float32's digits."""
GROSS = 64.0
"""Unit roundoffs of the largest number around, beyond which a compiled operation is not rounded but wrong."""


def closer(sight: Sight, pairs: Mapping[Key, Pair], reference: Model, declared: Callable[[Key], float]) -> None:
    """Where a border's bound says nothing at the elements that differ: slopes with their signs, and what they explain.

    Only for results of a module that both sides called with equal operands.
    """
    record, key = sight.record, sight.pair.key
    places = sight.hollow()[:MOST]
    unit = 0.0
    if len(places):
        unit = declared(key)
        sight.declare(unit)
        places = sight.hollow()[:MOST]
    module = reference.modules().get(sight.pair.other.name)
    if not len(places) or module is None:
        return
    try:
        given = copied(pairs[key._replace(way="in")].target)
        with unchanged(module), in_force(unit):
            windows = [w for p in places if (w := window(module, given, sight.target.shape, int(p))) is not None]
            found = [linearised(call, given_, [0], known=(*call.args, unit))[0] for call, given_ in windows]
            found = found or linearised(lambda *x: module(*x), given, [int(p) for p in places])
    except Exception as error:  # a graph that cannot be had leaves the interval as all there is
        caught(error, "slopes of a module")
        record.bands = {}
        record.taints = (*record.taints, f"no slopes: {type(error).__name__}: {str(error).splitlines()[0][:80]}")
        return
    for kind in ("first-order", "probabilistic"):
        known = [f.bands()[kind] for f in found if kind in f.bands()]
        if known:
            record.bands[kind] = max(known)
    if not all(f.valid for f in found):
        return
    target, reference_eta = ([_eta(y.reshape(-1)[p], f, sight.unit) for p, f in zip(places, found, strict=True)]
                             for y in (sight.target, sight.reference))  # fmt: skip
    if max(target) > HALF and max(reference_eta) <= LIMIT:
        record.eta_target, record.eta_reference = max(target), max(reference_eta)
        record.unstable = sum(t > HALF for t in target)
        record.kind = "first-order"


Window = tuple[partial[torch.Tensor], list[torch.Tensor]]


def window(module: nn.Module, given: Sequence[Any], shape: Sequence[int], place: int) -> Window | None:
    """A convolution of one output and its operands, all that it reads: a sweep over the image would find zeros.

    None of other modules, and where torch runs it otherwise than as a sum.
    """
    if type(module) is not nn.Conv2d or "forward" in vars(module) or len(given) != 1 or given[0].dim() != 4:
        return None
    m, bias = module, module.bias
    if m.groups != 1 or m.padding_mode != "zeros" or not isinstance(m.padding, tuple):
        return None
    if not LinearSums.possible((given[0], m.weight, bias, m.stride, m.padding, m.dilation, False, (0, 0), 1)):
        return None
    (rest, column), (top, left) = divmod(place, shape[3]), m.padding
    (rest, row), (down, right) = divmod(rest, shape[2]), m.stride
    image, channel = divmod(rest, shape[1])
    (height, width), (apart, beside) = m.kernel_size, m.dilation
    whole = nn.functional.pad(given[0][image : image + 1], (left, left, top, top))
    x = whole[:, :, row * down :, column * right :][:, :, : apart * (height - 1) + 1, : beside * (width - 1) + 1]
    own = [t.detach()[channel : channel + 1] for t in (m.weight, bias) if t is not None]
    return partial(_summed, tuple(m.dilation)), [x.clone(), *own]


def _summed(
    dilation: tuple[int, ...], x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:  # fmt: skip
    return nn.functional.conv2d(x, weight, bias, dilation=dilation)


def nearer(
    sight: Sight, pairs: Mapping[Key, Pair], reference: Model, declared: Callable[[Key], float]
) -> None:  # fmt: skip
    """Where two functions differ by less than a deep region's bound of rounded constants: slopes with their signs.

    Only for the first result of a module with nothing judged inside.
    """
    key, exact = sight.pair.key, sight.exact
    order = list(pairs)
    at = order.index(key)
    entry, module = key._replace(way="in"), reference.modules().get(sight.pair.other.name)
    alone = key.way == "out" and at and order[at - 1] == entry and not sight.place
    if not alone or module is None or module.training or exact is None:
        return
    try:
        with unchanged(module), plain_attention(exact=True), in_force(declared(key)):
            (found,) = linearised(lambda *x: module(*x), copied(pairs[entry].target), [sight.furthest[0]])
    except Exception as error:  # a graph that cannot be had leaves the bound as all there is
        caught(error, "slopes of a module")
        return
    if found.valid:
        sight.nearer(found.exact, found.conditioning)


def _eta(y: float, found: Any, unit: float) -> float:
    explained = found.conditioning * unit / UNIT + unit * abs(found.exact)
    gap = abs(float(y) - found.exact)
    return 0.0 if gap == 0 else gap / explained if explained and math.isfinite(gap) else math.inf


class _Steps(TorchDispatchMode):
    """Every operation of a call with its operands."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, Any, Any]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, (args, kwargs or {}))
        out = func(*args, **(kwargs or {}))
        if is_float(out) and not func._schema.is_mutable:
            self.seen.append((func, *before))
        return out


class Loss(NamedTuple):
    """What one operation loses, in units of what its conditioning explains; `gross`: more than a rounding of 1."""

    times: float = 0.0
    name: str = ""
    gross: bool = False


def operation_of(sight: Sight, pairs: Mapping[Key, Pair], target: Model) -> Loss:
    """The operation of an unstable module that loses most; of a compiled one each is compiled by itself."""
    entry = pairs.get(sight.pair.key._replace(way="in"))
    module = target.modules().get(sight.pair.key.name)
    if entry is None or module is None or sight.pair.key.way != "out":
        return Loss()
    steps = _Steps()
    try:
        with unchanged(module), torch.no_grad(), steps:
            module(*copied(entry.target))
    except Exception as error:  # its arguments are not tensors alone
        caught(error, "steps of a module")
        return Loss()
    worst = max((_loss(*step, target.compiler) for step in steps.seen), default=Loss())
    return worst if worst.times > LIMIT else Loss()


def _loss(func: Any, args: Any, kwargs: Any, compiler: Callable[[Any], Any] | None) -> Loss:
    """Error of one compiled step; of one that runs as it is, how much it magnifies what its operands are off."""
    name = base_name(func)
    wide = tree_map(lambda x: x.to(F64) if is_float(x) else x, (args, kwargs))
    floats = [x for x in tree_leaves(wide) if isinstance(x, torch.Tensor)]
    errors = [x.abs() * UNIT if is_float(x) else None for x in floats]
    try:
        operation = Movable(func, wide[0], wide[1], list(errors), default_dtype)
        exact = operation.run()[0]
        moved = error_of(operation, [exact], [F64], Unit(native=False), False)[0]
    except Exception as error:  # what float64 cannot repeat is not looked at
        caught(error, "one operation of a module in float64")
        return Loss()
    rounding = UNIT * exact.abs() + 2.0**-149
    explained = rounding + (0.0 if moved is None else moved)
    if compiler is None:
        return Loss(float((explained / rounding).nan_to_num(0.0, 0.0).max()), name)
    if name in _SILENT:
        return Loss()
    off = (compiler(lambda *a: func(*a, **kwargs))(*args).to(F64) - exact).abs()
    size = max(1.0, *(float(x.abs().nan_to_num(0.0, 0.0).max()) for x in (*floats, exact) if is_float(x)))
    gross = bool((off > GROSS * UNIT * size).any())
    return Loss(float((off / explained).nan_to_num(0.0, 0.0).max()), name, gross)


_SILENT = frozenset(["add", "mul", "view", "clone"])
"""Not worth compiling by themselves."""


def look(
    sights: Sequence[Sight], pairs: Mapping[Key, Pair], reference: Model, declared: Callable[[Key], float]
) -> None:
    for sight in sights:
        if sight.suspect and not sight.record.unstable:
            nearer(sight, pairs, reference, declared)
        open_ = not sight.record.unstable and sight.record.apart <= 1
        if open_ and sight.exact is not None and sight.moved is not None:
            closer(sight, pairs, reference, declared)
