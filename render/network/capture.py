"""What went into and came out of every module of one run.

Hooks on all modules write down (name, way, tensors); names, calls and callers follow from the order afterwards, so that
the hooks stay simple enough to be traced by torch.compile: a compiled model is compiled once more with its activations
as further outputs, by the same backend, and keeps its fusions but for what it has to write out.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from render.network.spill import Spill, Spilled

Tensors = list[torch.Tensor]


class Key(NamedTuple):
    """One crossing of a module's border: its name as `named_modules` gives it, which call of it, in or out."""

    name: str
    call: int
    way: str


@dataclass
class Crossing:
    """The tensors at a border, and the module whose own code made them."""

    key: Key
    maker: str
    tensors: Tensors

    @property
    def leaf(self) -> bool:
        return self.key.way == "out" and self.maker == self.key.name


@dataclass
class ModuleRun:
    """The crossings of one run, in their order; `state`: buffers after it, by module and name."""

    crossings: dict[Key, Crossing]
    output: Any = None
    state: dict[Key, Crossing] = field(default_factory=dict)


class Wrapped(nn.Module):
    """A plain function as a model without children."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass
class Model:
    """A side: the module as written, and what runs it as the user gave it (None: as it is)."""

    module: nn.Module
    compiler: Callable[[Any], Any] | None = None
    _modules: dict[str, nn.Module] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, given: Any) -> Model:
        """ValueError for what cannot be called."""
        compiler = None
        if hasattr(given, "_orig_mod"):
            given, compiler = given._orig_mod, given.dynamo_ctx
        elif hasattr(given, "_torchdynamo_orig_callable"):
            given, compiler = given._torchdynamo_orig_callable, compiler_of(given)
        elif isinstance(given, nn.Module) and getattr(given, "_compiled_call_impl", None) is not None:
            compiler = compiler_of(given._compiled_call_impl)
        if not callable(given):
            raise ValueError(f"{type(given).__name__} is neither a module nor a function")
        return cls(given if isinstance(given, nn.Module) else Wrapped(given), compiler)

    def modules(self) -> dict[str, nn.Module]:
        """By name, as they were when they were first asked for: what a run adds has no border."""
        if not self._modules:
            named = self.module.named_modules()
            self._modules = {n.replace("_orig_mod.", ""): m for n, m in named if not n.endswith("_orig_mod")}
        return self._modules


def compiler_of(compiled: Any) -> Callable[[Any], Any]:
    """What compiled a function, with the user's backend and options: torch keeps it in the function's closure alone.

    ValueError where it is not there: another compiler in its place would be another program.
    """
    from torch._dynamo.eval_frame import _TorchDynamoContext

    held = [cell.cell_contents for cell in getattr(compiled, "__closure__", None) or ()]
    found = next((x for x in held if isinstance(x, _TorchDynamoContext)), None)
    if found is None:
        raise ValueError("what compiled this function is not to be seen; pass torch.compile(module, ...)")
    return found


def own(module: nn.Module) -> Tensors:
    """Parameters and buffers of a module itself."""
    return [t for held in (module._parameters, module._buffers) for t in held.values() if t is not None]


def leaves(x: Any) -> Tensors:
    """The tensors of arguments or results, in order."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, (tuple, list)):
        return [t for v in x for t in leaves(v)]
    if type(x) in PLAIN:
        return []
    if isinstance(x, Mapping):
        return [t for v in x.values() for t in leaves(v)]
    if is_dataclass(x) and not isinstance(x, type):
        return [t for f in fields(x) for t in leaves(getattr(x, f.name, None))]
    return []


PLAIN = frozenset([type(None), bool, int, float, str])
"""Types that hold no tensors: most of what modules have is of these, and to ask for abstract classes takes long."""
Event = tuple[str, str, Tensors]
Enter = Callable[[str, nn.Module, Any], None]
Leave = Callable[[str, nn.Module, Any], Any]


@contextmanager
def hooked(modules: Mapping[str, nn.Module], enter: Enter, leave: Leave) -> Iterator[None]:
    """Calls `enter(name, module, arguments)` and `leave(name, module, result)` around every call of every module."""
    handles: list[RemovableHandle] = []
    try:
        for name, module in modules.items():

            def before(m: nn.Module, args: Any, kwargs: Any, name: str = name) -> None:
                enter(name, m, (args, kwargs))

            def after(m: nn.Module, args: Any, kwargs: Any, out: Any, name: str = name) -> Any:
                return leave(name, m, out)

            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            handles.append(module.register_forward_hook(after, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Puts buffers, random numbers and the plain attributes of modules (caches, counters) back on exit.

    Inside, autocast keeps no weights that it has cast: a walk has to see every cast of its own run.
    """
    caching = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    torch.clear_autocast_cache()
    modules = list(module.modules())
    buffers = [(b, b.clone()) for m in modules for b in m._buffers.values() if b is not None]
    plain = [
        (m, {k: v if type(v) in PLAIN else _copied(v) for k, v in vars(m).items() if k[:1] != "_"}) for m in modules
    ]
    generator = torch.random.get_rng_state()
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for owner, attributes in plain:
            for name in [k for k in vars(owner) if k not in attributes and k[:1] != "_"]:
                delattr(owner, name)
            vars(owner).update(attributes)
        torch.random.set_rng_state(generator)
        torch.set_autocast_cache_enabled(caching)


def _copied(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    return type(x)(x) if type(x) in (list, dict, set) else x


def copied(x: Any) -> Any:
    """Arguments that a run may write to."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    if type(x) in (tuple, list):
        return type(x)(copied(v) for v in x)
    return {k: copied(v) for k, v in x.items()} if type(x) is dict else x


def capture(model: Model, inputs: Sequence[Any], seed: int = 0) -> ModuleRun:
    """One run as the user gave it, with every crossing of a module's border."""
    events: list[tuple[str, str, Sequence[Spilled]]] = []
    kept: dict[int, tuple[weakref.ref[torch.Tensor], int, Spilled]] = {}
    spill = Spill()

    def keep(t: torch.Tensor) -> Spilled:
        """A copy, or the one made before of the same tensor: several modules read what one returned."""
        if t.is_inference():
            return spill.hold(t)
        found = kept.get(id(t))
        if found is None or found[0]() is not t or found[1] != t._version:
            found = kept[id(t)] = weakref.ref(t), t._version, spill.hold(t)
        return found[2]

    def eager_enter(name: str, module: nn.Module, arguments: Any) -> None:
        events.append((name, "in", [keep(t) for t in leaves(arguments)]))

    def eager_leave(name: str, module: nn.Module, result: Any) -> None:
        events.append((name, "out", [keep(t) for t in leaves(result)]))

    traced: list[Event] = []

    def traced_enter(name: str, module: nn.Module, arguments: Any) -> None:
        traced.append((name, "in", [t.detach().clone() for t in leaves(arguments)]))

    def traced_leave(name: str, module: nn.Module, result: Any) -> None:
        traced.append((name, "out", [t.detach().clone() for t in leaves(result)]))

    modules = model.modules()
    enter, leave = (eager_enter, eager_leave) if model.compiler is None else (traced_enter, traced_leave)
    with unchanged(model.module), _fresh(model), torch.no_grad(), hooked(modules, enter, leave):
        call = _runner(model)
        torch.manual_seed(seed)
        output = call(*copied(tuple(inputs)))
        state = {
            Key(name, 0, "state"): Crossing(Key(name, 0, "state"), name, [b.clone() for b in own])
            for name, m in modules.items()
            if m.training and (own := [b for b in m.buffers(recurse=False) if b.is_floating_point()])
        }
    while traced:
        name, way, made = traced.pop(0)
        events.append((name, way, [spill.hold(t) for t in made]))
    return ModuleRun(ordered([(name, way, [h.tensor() for h in held]) for name, way, held in events]), output, state)


def _runner(model: Model) -> Callable[..., Any]:
    if model.compiler is None:
        return model.module
    found: Callable[..., Any] = model.compiler(lambda *args: model.module(*args))
    return found


@contextmanager
def _fresh(model: Model) -> Iterator[None]:
    """Compilation that sees the hooks, whatever was compiled before."""
    if model.compiler is None:
        yield
        return
    import torch._dynamo as dynamo

    with (
        dynamo.config.patch(skip_nnmodule_hook_guards=False)
        if hasattr(dynamo.config, "skip_nnmodule_hook_guards")
        else nullcontext()
    ):
        yield


def ordered(events: Sequence[Event]) -> dict[Key, Crossing]:
    """Events as crossings: calls counted, and whose code made the tensors."""
    calls: Counter[str] = Counter()
    stack: list[Key] = []
    parents: set[Key] = set()
    found: dict[Key, Crossing] = {}
    for name, way, tensors in events:
        if way == "in":
            key = Key(name, calls[name], "in")
            calls[name] += 1
            if stack:
                parents.add(stack[-1])
            found[key] = Crossing(key, stack[-1].name if stack else name, tensors)
            stack.append(key)
        else:
            while stack and stack[-1].name != name:
                stack.pop()  # a call that ended by an exception which its caller caught
            key = Key(name, stack.pop().call if stack else 0, "out")
            found[key] = Crossing(key, name, tensors)
    return found


def callers(crossings: Mapping[Key, Crossing]) -> frozenset[str]:
    """Modules that called others: a fault in their code is none of a leaf."""
    return frozenset(c.maker for c in crossings.values() if c.key.way == "in" and c.maker != c.key.name)


__all__ = [
    "PLAIN",
    "Crossing",
    "Key",
    "Model",
    "ModuleRun",
    "Tensors",
    "capture",
    "copied",
    "hooked",
    "leaves",
    "ordered",
    "own",
    "unchanged",
]  # fmt: skip
