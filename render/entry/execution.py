"""One interpreted run of the user's entry function, and what is known about each tensor that it gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from interval_ops.profiles.file import ProfileError
from interval_ops.profiles.profile import MissingRule, Profile, load_profile
from render.entry.held_state import once, seeded
from render.entry.inputs import Inputs
from render.entry.outputs import Named, flatten, outline, settled, stored_arguments, stored_besides, values
from render.entry.target import as_kernel_error, returned_names, returning
from render.interpreter.boxes import carried
from render.interpreter.hosted.overloads import is_plain, tensors_of
from render.interpreter.memory.records import Use
from render.interpreter.refusals import is_own_failure
from render.result.errors import KernelError, RenderError, UnsupportedOp, is_users
from render.result.footing import steadied

HANDLE = 1 << 13
"""Lanes in whose time (1 to 3 ns each) Python makes one handle."""

FAILURES = (KernelError, UnsupportedOp, RenderError)
"""What a run raises that cannot be made or repeated."""
NOTHING_LAUNCHED = "RND904"
HANDED = "a program, a launch or the host reads what a program stores: a part of the programs says nothing"
WORTH_WORK = 500_000_000
"""Counted lanes of a run that is repeated unasked: about five to ten seconds."""


def open_session(device: str, mute: Iterable[Any] = (), **options: Any) -> Any:
    """The interpreter's scope; imported here because it brings in Triton."""
    from render.interpreter.session import Session

    profile_called(device)
    try:
        return Session(device=device, mute=frozenset(mute), **options)
    except ValueError as error:
        raise RenderError("RND902", str(error), "see `render classify --help`, Target") from None


@contextmanager
def described_as(name: str | None) -> Iterator[None]:
    """Host code is told of this profile's device, in every scope inside. Raises RenderError for an unknown one."""
    from render.interpreter.device import described

    with described(None if name is None else profile_called(name)):
        yield


def profile_called(name: str) -> Profile:
    """The profile of a name. Raises RenderError for an unknown one."""
    try:
        return load_profile(name)
    except ProfileError:
        raise  # a broken data file of ours is no mistake of the user
    except (ValueError, LookupError) as error:
        raise RenderError("RND902", str(error).strip("'\""), "choose one with --device") from None


@contextmanager
def on_cpu(device: str | None = None) -> Iterator[None]:
    """A scope in which `device="cuda"` means the CPU, for the reference and for the user's own inputs.

    `device`: the profile that host code is told of; None keeps the one of the scope around it, or the default.
    """
    from render.interpreter.cuda_redirect import cuda_on_cpu

    with described_as(device), cuda_on_cpu():
        yield


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """`torch.zeros(n)` and friends give this dtype inside."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@dataclass(frozen=True)
class Tensor:
    """One tensor of the kernel's side: values, bound, never-stored elements, ids of the taints that reached it.

    Of a large float tensor `tensor` is only the outline (`value` has its numbers); `base` is the byte address where its
    storage began, `address` that of its first element.
    `tracked` is False for a tensor that no kernel wrote and that was not copied from such memory: its values are known,
    a bound is not. `use`: what kernels did with its memory, `made`: file and
    line of the host code that allocated it. `left`: elements that no program stored, where a part of them ran. `given`:
    it is memory of an input that nothing changed, so that its values are exact.
    """

    name: str
    tensor: torch.Tensor
    address: int
    base: int
    value: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    unstored: np.ndarray | None = None
    taints: frozenset[int] = frozenset()
    tracked: bool = True
    use: Use = Use.NONE
    made: tuple[str, int] | None = None
    left: np.ndarray | None = None
    given: bool = False

    def offset(self, where: tuple[int, ...]) -> int:
        """Bytes from the first element to the one at `where`. Raises RenderError where there is none."""
        shape, strides = self.tensor.shape, self.tensor.stride()
        if len(where) != len(shape) or any(not 0 <= i < n for i, n in zip(where, shape, strict=True)):
            raise RenderError("RND903", f"{self.name} has shape {list(shape)}, not an element {list(where)}")
        return sum(i * s for i, s in zip(where, strides, strict=True)) * self.tensor.element_size()


@dataclass(frozen=True)
class Execution:
    """What a run left behind. `seconds` is the wall time of the whole entry, `cpu_seconds` its processor time.

    `recording`: everything that it computed (`render.trace.observed`), if that was recorded. `aside`: the tensors that
    kernels stored to and that the caller can see besides the outputs, with what became of them. `fn`: what was called.
    """

    outputs: list[Tensor]
    session: Any
    seconds: float
    cpu_seconds: float = 0.0
    recording: Any = field(default=None, repr=False, compare=False)
    aside: tuple[tuple[str, Use], ...] = ()
    fn: Any = field(default=None, repr=False, compare=False)
    exactly: Callable[[], frozenset[str]] = field(default=frozenset, repr=False, compare=False)
    """Names of the outputs that no kernel stored to and that the host made without a rounding; it runs once more."""

    @property
    def work(self) -> int:
        """Counted lanes (`Meter.work`) of all launches: what the run costs, the same on every machine."""
        return sum(getattr(launch, "work", 0) for launch in self.session.launches)

    @property
    def cost(self) -> int:
        """What one more such run takes, in lanes: a handle takes as long as some thousand lanes of it."""
        return self.work + HANDLE * sum(getattr(launch, "made", 0) for launch in self.session.launches)

    @property
    def apart(self) -> bool:
        """Whether neither a kernel nor the host read what a kernel of this run stored, as far as memory is known."""
        found: bool = self.session.memory.apart
        return found

    def output(self, name: str) -> Tensor:
        for found in self.outputs:
            if found.name == name:
                return found
        names = ", ".join(o.name for o in self.outputs)
        raise RenderError("RND903", f"no output {name!r}", f"there are: {names}")

    @property
    def named(self) -> Named:
        return [(o.name, o.tensor) for o in self.outputs]


@dataclass(frozen=True)
class Entry:
    """The function under test with its inputs; every run starts from fresh copies of them."""

    fn: Callable[..., Any]
    inputs: Inputs
    device: str = "any"
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    held: tuple[tuple[torch.Tensor, torch.Tensor], ...] = field(default=(), compare=False)
    """Tensors that the function holds, each with one that carries its ends (`render.interpreter.boxes`)."""

    def run(self, mute: Iterable[Any] = ()) -> Execution:
        """Interpret one call. Raises KernelError for what the user's code raises, UnsupportedOp where a rule lacks."""
        inputs = self.inputs.clone()
        began, cpu = time.perf_counter(), time.process_time()
        session, result = self._launched(inputs, mute)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        found = self._named(inputs, session, result)
        uses = session.memory.use_of
        besides = () if getattr(self.fn, "alone", False) else stored_besides(inputs, found, session.envelope)
        aside = tuple((name, uses(t)) for name, t in besides)
        part = session.programs is not None
        outputs = [replace(d := _describe(n, t, session), tensor=inputs.apart(d.tensor), use=uses(t),
                           made=session.made_at(t.untyped_storage().data_ptr()),
                           left=~session.memory.stored_by_kernels(t) if part else None) for n, t in found]  # fmt: skip
        same = _unchanged(self.inputs, inputs) if not all(t.tracked for t in outputs) else frozenset()
        outputs = [
            replace(t, tracked=True, given=True, made=t.made or returning(self.fn))
            if not t.tracked and t.base in same
            else t
            for t in outputs
        ]
        exactly = cache(lambda: self._exactly(outputs, mute))
        run = Execution(outputs, session, seconds, cpu, aside=aside, fn=self.fn, exactly=exactly)
        if part and not run.apart:
            raise RenderError("RND902", HANDED, "leave --programs out")
        return run

    def _exactly(self, outputs: Sequence[Tensor], mute: Iterable[Any]) -> frozenset[str]:
        """See `Execution.exactly`: what an equal run made, as `ExactTracker` sees it."""
        from render.interpreter.exact_tracker import ExactTracker

        if not self.options.keys().isdisjoint(("tracker", "programs")):
            return frozenset()
        inputs, tracked = self.inputs.clone(), list[ExactTracker]()
        given = tensors_of((list(inputs.args), dict(inputs.kwargs)))

        def tracker(session: Any) -> ExactTracker:
            tracked.append(ExactTracker(session.memory, session.mute, session.causes, given=given))
            return tracked[-1]

        kept = {k: v for k, v in self.options.items() if k != "builder"}  # which may record, and has recorded this run
        again = replace(self, options={**kept, "tracker": tracker})
        try:
            session, result = again._launched(inputs, mute)
        except FAILURES:  # it cannot be repeated: nothing is known
            return frozenset()
        made = {name: values(t) for name, t in self._named(inputs, session, result) if tracked[0].knows(t)}
        return frozenset(
            x.name for x in outputs
            if not x.tracked and x.name in made and np.array_equal(x.value, made[x.name], equal_nan=True)
        )  # fmt: skip

    def given(self) -> Named:
        """The tensors that one call gives; no bound is read, for who only watches what happens inside."""
        inputs = self.inputs.clone()
        return [(name, inputs.apart(x)) for name, x in self._named(inputs, *self._launched(inputs))]

    def _launched(self, inputs: Inputs, mute: Iterable[Any] = ()) -> tuple[Any, Any]:
        """(the closed session, what the function returned)."""
        session = open_session(self.device, **{"mute": mute, **self.options})
        with session:
            carried(session.memory, (self.inputs.args, dict(self.inputs.kwargs)), (inputs.args, dict(inputs.kwargs)))
            carried(session.memory, [wide for _, wide in self.held], [x for x, _ in self.held])
            result = self._call(session.with_numbers(inputs))
            if not session.launches:
                raise RenderError(
                    NOTHING_LAUNCHED,
                    f"{self._name} launched no Triton kernel",
                    "does it take another path for these inputs? choose another one with --entry",
                )
        return session, result

    def _named(self, inputs: Inputs, session: Any, result: Any) -> Named:
        made = partial(session.returned, returning(self.fn))
        return flatten(result, returned_names(self.fn), made=made) or stored_arguments(inputs, session.envelope)

    @property
    def _name(self) -> str:
        return getattr(self.fn, "__name__", type(self.fn).__name__)

    def _call(self, inputs: Inputs) -> Any:
        seeded(self.seed)
        try:
            with once(self.inputs.held), steadied():
                return settled(self.fn(*inputs.args, **inputs.kwargs))
        except (RenderError, UnsupportedOp, MissingRule, KernelError):
            raise
        except BaseException as error:
            if not is_users(error) or is_own_failure(error):
                raise
            raise as_kernel_error(error) from error


def _unchanged(before: Inputs, after: Inputs) -> frozenset[int]:
    """Where the memory of inputs begins that a call left as it was."""
    pairs = zip(*(tensors_of((list(x.args), dict(x.kwargs))) for x in (before, after)), strict=False)
    return frozenset(a.untyped_storage().data_ptr() for b, a in pairs if is_plain(a) and is_plain(b) and _same(a, b))


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """In every bit."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return torch.equal(*(x.detach().reshape(-1).contiguous().view(torch.uint8) for x in (a, b)))


def _describe(name: str, tensor: torch.Tensor, session: Any) -> Tensor:
    envelope = session.envelope(tensor, take=True)
    value = values(tensor, copy=True)
    kept = tensor if value.dtype != np.float32 else outline(tensor)
    start = tensor.untyped_storage().data_ptr()
    at = start + int(tensor.storage_offset()) * tensor.element_size()
    held = session.memory.find(at)  # numpy's views of it begin elsewhere
    where = kept, at, start if held is None else held.base
    if envelope is None:
        point = np.asarray(value, np.float64)
        return Tensor(name, *where, value, point, point, tracked=False)
    lo, hi = (np.broadcast_to(np.asarray(end, np.float64), value.shape) for end in (envelope.lo, envelope.hi))
    unstored = ~np.broadcast_to(np.asarray(envelope.written, bool), value.shape)
    return Tensor(name, *where, value, lo, hi, unstored, frozenset(envelope.taints))
