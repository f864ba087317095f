"""One training step of two models: gradients, buffers and parameters after a step of the optimiser.

Both sides run as they are and once in float64. E_t and E_r, the two steps without rounding, differ only where the two
are other functions; what each side is off its own E by is compared with the other's. The target's
forward and backward pass are followed by the host's rules as well: where every operation has one, a gradient or buffer
is *rigorous*, and an E_r outside of that bound is another function beyond doubt (RND201). Elsewhere figures are first
order, and labelled so.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import nn

from render.interpreter.hosted.call import values
from render.interpreter.memory import Taint
from render.interpreter.no_gpu import launching
from render.interpreter.session import Session
from render.network.capture import Key, copied
from render.network.compare import checked, compare_models
from render.network.judge import Sight
from render.network.pairs import Pair
from render.network.records import FIRST_ORDER, RIGOROUS, LeafRecord, NetworkVerdict, worst
from render.network.vanishing import WORSE, Ends, Vanishing
from render.network.walks import UNIT, plain_attention
from render.reference.shadow import default_dtype
from render.result.errors import RenderError, UnsupportedOp, expect

SAME = 2.0**-18
"""Relative to the largest element: what rounded constants may do to a step, with a margin of 2^6."""
MINE = 2.0**-40
"""Of the largest element: what float64 itself may be off in a step."""
State = dict[str, torch.Tensor]
Loss = Callable[[Any], torch.Tensor]
Optimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def compare_training(
    target: nn.Module, reference: nn.Module, *inputs: Any, loss: Loss | None = None,
    optimizer: Optimizer | None = None, steps: int = 1, seed: int = 0,
    device: str = "torch-cpu", bounds: str = "all",
) -> NetworkVerdict:  # fmt: skip
    """Judge gradients (and, with an optimiser, the parameters after `steps` steps) by the parameters' own names.

    `loss` makes a scalar of what the model returns; by default the sum of squares, or the result if it is one. `first`
    names the module whose forward pass or buffers are another, if one's are (`compare_models`); else the module nearest
    to the loss whose gradient is another, for the backward pass reaches it first. `bounds`: "all", or "none" for
    figures of first order alone. `optimizer` makes an optimiser of parameters; `target`, `reference`, `inputs`, `seed`
    and `device` are as in `compare_models`. Raises RenderError for what cannot be compared.

        render.compare_training(fused, eager, x, optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3), steps=3)
    """
    expect("target", target, nn.Module)
    expect("reference", reference, nn.Module)
    checked(device, seed)
    expect("steps", steps, int)
    for name, given in (("loss", loss), ("optimizer", optimizer)):
        expect(name, given, Callable, none=True)  # type: ignore[arg-type]
    if steps < 1:
        raise RenderError("RND902", f"steps={steps}", "one step is the least")
    if bounds not in ("all", "none"):
        raise RenderError("RND902", f"bounds={bounds!r}", 'choose "all" or "none"')
    with launching(device):
        return _compared(target, reference, inputs, loss, optimizer, steps, seed, device, bounds)


def _compared(
    target: nn.Module, reference: nn.Module, inputs: Sequence[Any], loss: Loss | None, optimizer: Optimizer | None,
    steps: int, seed: int, device: str, bounds: str,
) -> NetworkVerdict:  # fmt: skip
    try:
        mine, theirs = (_steps(m, inputs, loss, optimizer, steps, seed, None) for m in (target, reference))
    except RenderError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RenderError("RND902", f"a step does not come to its end: {told}", "take one by itself") from error
    try:
        exact = [_steps(m, inputs, loss, optimizer, steps, seed, torch.float64) for m in (target, reference)]
    except Exception as error:
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RenderError("RND902", f"a step does not run in float64: {told}",
                          "make tensors of the type of their neighbours, as in zeros_like(x)") from error  # fmt: skip
    common = [name for name in mine if name in theirs and mine[name].shape == theirs[name].shape]
    if not common:
        raise RenderError("RND902", "the two models share no parameter", "gradients are matched by name")
    vanishing = Vanishing.of([mine, theirs], exact)
    records = [
        _judged(name, mine[name], theirs[name], exact[0][name], exact[1][name],
                name.rpartition(" ")[0] in vanishing.known)
        for name in reversed(common)
    ]  # fmt: skip
    known: dict[str, Ends] = {}
    if bounds == "all" and any(r.differing for r in records):
        known, without = _bounded(target, inputs, loss, optimizer, steps, seed, device)
        for record in records:
            record.taints = without.get(record.at, ())
            _against(record, known.get(record.at), mine[record.at], exact[0][record.at], exact[1][record.at])
    if vanishing.open:
        other = _bounded(reference, inputs, loss, optimizer, steps, seed, device)[0] if known else {}
        for path in vanishing.open:
            vanishing.settle(path, records, (known, other), exact)
    moved = {r.at for r in records if r.differing}
    notes = vanishing.notes(lambda path: f"{path} grad" in moved)
    bug = next((r for r in records if r.label == "Type-II"), None)
    forward = None if bug is None else compare_models(target, reference, *inputs, seed=seed)
    if forward is not None and forward.label == "Type-II":
        return replace(forward, leaves=[*forward.leaves, *records], notes=[*forward.notes, *notes])
    if bug is not None:
        text = f"{bug.name or 'the model'}: {bug.detail}"
        return NetworkVerdict("Type-II", bug.code, bug.name, text, records, bug.paper_rule, device, notes)
    label, code = worst(records)
    return NetworkVerdict(label, code, None, "no gradient leaves", records, "Type-I", device, notes)


def _steps(
    model: nn.Module, inputs: Sequence[Any], loss: Loss | None,
    optimizer: Optimizer | None, steps: int, seed: int, dtype: torch.dtype | None,
) -> State:  # fmt: skip
    """Gradients of the last step, buffers, and with an optimiser the parameters after it, by name."""
    model = copy.deepcopy(model)
    given = copied(tuple(inputs))
    if dtype is not None:
        model = model.to(dtype)
        given = tuple(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given)
    rule = None if optimizer is None else optimizer(model.parameters())
    generator = torch.random.get_rng_state()
    try:
        torch.manual_seed(seed)
        with torch.enable_grad(), nullcontext() if dtype is None else default_dtype(dtype):

            def gradients() -> Any:
                model.zero_grad(set_to_none=True)
                lost = _scalar(model(*given), loss)
                lost.backward()  # type: ignore[no-untyped-call]
                return lost

            for _ in range(steps):
                gradients()
                made = ((n, p.grad.detach()) for n, p in model.named_parameters() if p.grad is not None)
                found = {f"{n} grad": g.clone() if g.layout == torch.strided else g.to_dense() for n, g in made}
                if rule is not None and _evaluates(rule):
                    rule.step(gradients)
                elif rule is not None:
                    rule.step()
    finally:
        torch.random.set_rng_state(generator)
    if rule is not None:
        found |= {f"{n} step": p.detach() for n, p in model.named_parameters()}
    return found | {f"{n} buffer": b for n, b in model.named_buffers() if b.is_floating_point()}


def _evaluates(rule: torch.optim.Optimizer) -> bool:
    """Whether a step evaluates the model itself, as often as it likes (LBFGS)."""
    told = list(inspect.signature(rule.step).parameters.values())
    return bool(told) and told[0].default is inspect.Parameter.empty and told[0].kind is not told[0].VAR_POSITIONAL


def _bounded(
    model: nn.Module, inputs: Sequence[Any], loss: Loss | None, optimizer: Optimizer | None, steps: int, seed: int,
    device: str,
) -> tuple[dict[str, Ends], dict[str, tuple[str, ...]]]:  # fmt: skip
    """(lo, hi) of gradients, buffers and parameters whose every operation has a rule, and why others have none."""
    session = Session(device=device, redirect=False)
    try:
        with session, plain_attention(exact=False):
            found = _steps(model, inputs, loss, optimizer, steps, seed, None)
            envelopes = {name: session.envelope(t) for name, t in found.items()}
    except UnsupportedOp as error:
        names = [f"{n} {what}" for n, _ in model.named_parameters() for what in ("grad", "step")]
        return {}, dict.fromkeys(names, (str(error).partition("\n")[0],))
    finally:
        session.forget()
    known: dict[str, Ends] = {}
    without: dict[str, tuple[str, ...]] = {}
    for name, e in envelopes.items():
        v = values(found[name]).astype(np.float64)
        lo, hi = (v, v) if e is None else (e.lo, e.hi)  # None: nothing was rounded on its way
        if e is not None and e.taints:
            without[name] = tuple(dict.fromkeys(_told(session.taints[i]) for i in sorted(e.taints)))
        elif np.isfinite(lo).all() and np.isfinite(hi).all():
            known[name] = lo, hi
        else:
            without[name] = ("its bound is infinite: what may be nothing is divided by, or numbers overflow",)
    return known, without


def _told(taint: Taint) -> str:
    return f"{taint.message} ({PurePath(taint.file).name}:{taint.line})"


def _against(
    record: LeafRecord, ends: Ends | None, y: torch.Tensor, exact: torch.Tensor, other: torch.Tensor
) -> None:  # fmt: skip
    """The record in the light of a bound that holds the target's own step, with and without rounding."""
    if ends is None:
        return
    lo, hi = (np.broadcast_to(e, tuple(y.shape)) for e in ends)
    own, theirs = (x.detach().double().numpy() for x in (exact, other))
    slack = MINE * np.abs(own).max(initial=0.0)
    if ((own < lo - slack) | (own > hi + slack)).any():
        record.taints = ("float64 took another way, at a kink",)  # no evidence
        return
    record.kind = RIGOROUS
    record.width = float(np.median(hi - lo)) / (float(np.abs(own).max(initial=0.0)) or 1.0)
    record.exact_out_target = int(((theirs < lo - slack) | (theirs > hi + slack)).sum())
    if record.code == "RND211" and record.exact_out_target:
        record.code = "RND201"
        record.detail += f"; {record.exact_out_target} exact values of the reference lie outside the target's bound"


def _scalar(out: Any, loss: Loss | None) -> torch.Tensor:
    if loss is not None:
        found = loss(out)
        if not isinstance(found, torch.Tensor) or found.dim():
            raise RenderError("RND902", "`loss` gives no scalar", "e.g. loss=lambda y: y.square().mean()")
        return found
    first: torch.Tensor = out[0] if isinstance(out, (tuple, list)) else out
    return first if first.dim() == 0 else first.square().sum()


def _judged(
    name: str, y: torch.Tensor, z: torch.Tensor, exact: torch.Tensor, other: torch.Tensor, noise: bool
) -> LeafRecord:
    path, _, what = name.rpartition(" ")
    owner = path.rpartition(".")[0]
    record = Sight(Pair(Key(owner, 0, what), Key(owner, 0, what), owner, [y], [z]), 0, UNIT, UNIT).record
    record.at, record.leaf, record.kind = name, True, FIRST_ORDER
    size = float(other.abs().max()) or 1.0
    lost = [float((a.double() - b).abs().max()) for a, b in ((y, exact), (z, other))]
    if noise:
        record.code = "RND102" if record.differing else record.code
        return record
    record.apart = float((exact - other).abs().max()) / size / SAME
    off = [gap / size / max(UNIT, _unit(a)) for gap, a in zip(lost, (y, z), strict=True)]
    record.eta_target, record.eta_reference = off
    if record.apart > 1:
        record.label, record.code = "Type-II", "RND211"
        record.detail = f"without rounding its {what} differs by {record.apart * SAME:.2g} of the largest element"
    elif off[0] > WORSE * max(off[1], 1.0):
        record.label, record.code = "Type-II", "RND206"
        record.detail = f"its {what} is off by {off[0]:.3g} roundings, the reference's by {off[1]:.3g}"
    elif record.differing:
        record.code = "RND110" if off[1] > WORSE * max(off[0], 1.0) else "RND102"
    return record


def _unit(x: torch.Tensor) -> float:
    return torch.finfo(x.dtype).eps / 2 if x.is_floating_point() else 0.0
