"""The scope in which kernel launches are interpreted: patches Triton's entry points, restores them on exit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypedDict, Unpack

from interval_ops.allocator import RETAINED
from interval_ops.allocator import large_blocks_kept as large_blocks_kept
from interval_ops.allocator import spare as spare
from interval_ops.profiles.profile import CAUSES as CAUSES
from interval_ops.profiles.profile import Profile, load_profile
from interval_ops.threads import using
from render.interpreter.arguments import KernelCall, bind
from render.interpreter.arriving import Arrays, Brought
from render.interpreter.builder import Builder
from render.interpreter.choices import EXACT, Choices
from render.interpreter.compiled import Compiled, compiles, launch_hooks
from render.interpreter.context import Change, Context, Site
from render.interpreter.cuda_redirect import cuda_on_cpu, on_host
from render.interpreter.device import Description, described, target
from render.interpreter.eager import uncompiled
from render.interpreter.frontend import instead, refused
from render.interpreter.graphs import launched
from render.interpreter.host import HostTracker
from render.interpreter.hosted.numbers import Ends, OpenNumber
from render.interpreter.launch import Launch, run_launch
from render.interpreter.leaving import watch
from render.interpreter.libdevice import known_functions
from render.interpreter.memory import Envelope, Memory, MemoryFinding, Taint
from render.interpreter.scope import PatchScope
from render.interpreter.steps import BUDGET
from render.interpreter.threads import TURN, Follower, followed
from render.interpreter.tuning import Tuned, patch_autotuner, patch_benchmarks, settle
from render.interpreter.writers import Writers
from render.result import versions
from render.result.errors import Endless

_open: list[Session] = []


def innermost() -> Session | None:
    """The session that interprets now."""
    return _open[-1] if _open else None


Hand = Callable[[int, Any, Any, KernelCall], tuple[Any, KernelCall]]
"""What launch, by its number, is given: its grid and arguments, or others in place of them."""


class Settings(TypedDict, total=False):
    """What a session may be told; everything may be left out.

    `profile` stands for that of the named device. `mute` holds causes, or (cause, file, line) triples, whose error
    terms are left out (for attribution only: such bounds are not sound). `chunk` fixes the number of programs that run
    together, `together` how many do at first, by launch, where an equal run has shown it. `config` picks an autotune
    configuration by index, or the one that is tried first by kernel name.
    `undefined` is what masked-off lanes of a load without `other` read (None: 0, as targets lower them); running with
    another value shows whether they reach an output. `builder` makes what executes the operations of a launch, for
    executors with another arithmetic. `change` may plant a fault in the tree of each jitted function before it runs
    (`mutation`). `assume_exact` names vendor functions whose documented or unknown error is left out: their results are
    tainted. `sum_order` ("any", "tree"), `fp_contraction` ("any", "on", "off") and `triton_version` ("3.9"; the
    installed one unless told) are what bounds may assume of the compiler; None leaves the profile's. ValueError for an
    unknown one. `tracker` makes what follows the host's operations. `steps` is the budget of a launch (see `steps`),
    `most` that of launches (None: as many as there are).
    `programs`: only this part of each launch (a float up to 1) or so many of its programs run, spread evenly.
    `hand` may change what each launch, by its number, is given.
    `choice`: which way decisions go that bounds leave open (`render.interpreter.choices`); None: every way.
    `threads`: cores that flat loops over large arrays use; results do not depend on it (`interval_ops.threads`).
    `brought`: bounds for a tensor that host code makes of numbers from outside torch (None: as they are).
    `redirect` False: tensors stay where they are and say so, for host code that has run like that before.
    """

    interval: bool
    profile: Profile | None
    chunk: int | None
    together: Mapping[int, int]
    mute: Iterable[Any]
    config: int | Mapping[str, int]
    progress: Callable[[int, int, int], None] | None
    printer: Callable[[str], None]
    undefined: float | None
    builder: Callable[[Context], Builder]
    change: Change | None
    hand: Hand | None
    assume_exact: Iterable[str]
    sum_order: str | None
    fp_contraction: str | None
    triton_version: str | None
    tracker: Callable[[Session], Any] | None
    steps: int
    most: int | None
    programs: float | int | None
    brought: Brought | None
    redirect: bool
    choice: int | None
    threads: int | None


class Session:
    """Interprets every launch made inside the `with` block. Sessions nest; the innermost one interprets."""

    compiling = False
    """torch.compile compiles inside: what it makes of a model is what is asked."""

    def __init__(self, device: str = "any", **settings: Unpack[Settings]) -> None:
        """`device` names the target's profile."""
        if unknown := settings.keys() - Settings.__annotations__.keys():
            raise TypeError(f"a session has no setting {min(unknown)!r}")
        self.mute = frozenset(settings.get("mute", ()))
        self.profile = _profile(device, settings).mute(*(m for m in self.mute if isinstance(m, str)))
        self.interval = settings.get("interval", True)
        self.chunk = settings.get("chunk")
        self.together = settings.get("together", {})
        self.config = settings.get("config", 0)
        self.tuned: dict[str, Tuned] = {}
        self.progress = settings.get("progress")
        self.steps, self.most = settings.get("steps", BUDGET), settings.get("most")
        self.undefined = settings.get("undefined")
        self.programs = settings.get("programs")
        self.redirect = settings.get("redirect", True)
        self.threads = settings.get("threads")
        self._brought = settings.get("brought")
        self.builder = settings.get("builder", Builder)
        self.change = settings.get("change")
        self.hand, self._handed = settings.get("hand"), 0
        self._make_tracker = settings.get("tracker")
        self._tracker: HostTracker | None = None
        self._told: Description | None = None
        self.assume_exact = known_functions(settings.get("assume_exact", ()))
        self.undefined_sites: dict[Site, set[int]] = {}
        self.open_sites: set[Site] = set()
        self.memory = Memory(interval=self.interval)
        choice = settings.get("choice")
        choice = EXACT if self.mute >= set(CAUSES) else choice
        self.memory.choices = None if choice is None else Choices(choice)
        self.memory.printer = settings.get("printer", print)
        self.launches: list[Launch] = []
        self.writers: list[Writers] = []
        self.notes: list[str] = []
        self.causes: set[tuple[str, str, int]] = set()
        self._messages: dict[tuple[str, str, str, int], str] = {}
        self._stack = contextlib.ExitStack()
        self._registering = False
        self._seen: set[Any] = set()
        self._probing = False
        self.memory.bind(self.add_taint, lambda: self.profile)

    # findings
    def add_taint(self, code: str, op: str, site: Site, message: str) -> int:
        """The id of the taint of this code, op and line; the first message met there stands for all."""
        message = self._messages.setdefault((code, op, site.file, site.line), message)
        return self.memory.taints.add(code, op, site, message)

    @property
    def taints(self) -> dict[int, Taint]:
        """Places where no sound bound exists, by id. Work that was undone and run again counts once."""
        return self.memory.taints.all

    @property
    def host_roundings(self) -> dict[tuple[str, str, int], float]:
        """Unit roundoff of what the host computed from inputs before a launch, by cause, file and line."""
        return self._tracker.rounded if self._tracker else {}

    def made_at(self, base: int) -> tuple[str, int] | None:
        """File and line of the host code that allocated the storage at this address; None for another's."""
        site = self._tracker.made.get(base) if self._tracker else None
        return None if site is None else (site.file, site.line)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def findings(self) -> list[MemoryFinding]:
        return self.memory.findings

    @property
    def host_steps(self) -> int:
        """Operations of the host that read elements with bounds."""
        return 0 if self._tracker is None else self._tracker.followed

    def envelope(self, tensor: Any, take: bool = False) -> Envelope | None:
        """Bounds of a tensor's elements; None if no kernel wrote this memory and none was carried into it.

        `take` saves a copy where nothing is going to change that memory any more.
        """
        with using(self.threads):
            found = self.memory.envelope(tensor, take)
        numbers = self._tracker.numbers if self._tracker else None
        branched = frozenset[int]() if numbers is None else numbers.branched
        return replace(found, taints=found.taints | branched) if found is not None and branched else found

    @property
    def arrays(self) -> Arrays:
        """What host code made of numbers from outside torch, and where."""
        return self._tracker.arrays if isinstance(self._tracker, HostTracker) else []

    def forget(self, kept: int = RETAINED) -> None:
        """Release the memory that was interpreted, with its bounds, once all results are read; findings stay.

        `kept`: so much stays with the process for what it does next.
        """
        self.memory.forget()
        spare(kept)

    def context(self, grid: tuple[int, int, int]) -> Context:
        self.writers.append(Writers())
        return Context(
            profile=self.profile,
            interval=self.interval,
            memory=self.memory,
            grid=grid,
            mute=self.mute,
            add_taint=self.add_taint,
            note=self.note,
            causes=self.causes,
            undefined=self.undefined,
            undefined_sites=self.undefined_sites,
            open_sites=self.open_sites,
            part=self.programs,
            change=self.change,
            assume_exact=self.assume_exact,
            writers=self.writers[-1],
            sentinels=self.memory.symbols,
        )

    # scope
    def __enter__(self) -> Session:
        stack = self._stack
        try:
            stack.enter_context(large_blocks_kept())
            stack.enter_context(using(self.threads))
            scope = stack.enter_context(PatchScope())
            self._told = stack.enter_context(described(self.profile))
            eager = stack.enter_context(cuda_on_cpu()) if self.redirect else False
            if not self.compiling and not eager:
                stack.enter_context(uncompiled())
            self._patch_kernels(scope)
            patch_autotuner(scope, self)
            patch_benchmarks(scope)
            self._watch_addresses(scope)
            make = self._make_tracker or (lambda session: HostTracker(session.memory, session.mute, session.causes))
            self._tracker = make(self)
            if isinstance(self._tracker, HostTracker):
                self._tracker.lazy = self._tracker.lazy and self.memory.choices is None
                self._tracker.wide = self._brought
                watch(scope, self._tracker)
                stack.enter_context(self._in_threads(self._tracker))
            stack.enter_context(self._tracker)
        except BaseException:
            stack.close()
            raise
        _open.append(self)
        stack.callback(_open.remove, self)
        return self

    @contextlib.contextmanager
    def _in_threads(self, tracker: HostTracker) -> Iterator[None]:
        tracker.open = True
        try:
            with followed(lambda: Follower(tracker)):
                yield
        finally:
            tracker.open = False

    def __exit__(self, *exc: Any) -> None:
        try:
            settle(self)
        finally:
            self._stack.close()
        for text in self._told.notes if self._told else ():
            self.note(text)

    @property
    def host_told(self) -> str | None:
        """What host code asked of the device, and which it was told of: that path was judged."""
        return self._told.sentence if self._told else None

    @property
    def target(self) -> Any | None:
        """Triton's target, where one was named."""
        return target() if self._told is not None and self._told.named else None

    def _patch_kernels(self, scope: PatchScope) -> None:
        """Kernels decorated under TRITON_INTERPRET=1 come to us too. A kernel may call a parameter as it likes: what is
        ours is positional only."""
        from triton.runtime import interpreter, jit

        session, made = self, {}

        def run(kernel: Any, /, *args: Any, **kwargs: Any) -> Any:
            with TURN:
                if session not in _open:  # it was left while this thread waited
                    return kernel.run(*args, **kwargs)
                return session.run(kernel, args, kwargs)

        def run_interpreted(kernel: Any, /, *args: Any, **kwargs: Any) -> Any:
            if kernel.fn not in made:
                made[kernel.fn] = jit.JITFunction(kernel.fn)
            return run(made[kernel.fn], *args, **kwargs)

        scope.set(jit.JITFunction, "run", run)
        scope.set(interpreter.InterpretedFunction, "run", run_interpreted)

    def _watch_addresses(self, scope: PatchScope) -> None:
        """A tensor whose address the user takes may be reached through a pointer in memory (grouped GEMM)."""
        import torch

        session, plain = self, torch.Tensor.data_ptr

        def data_ptr(tensor: Any) -> int:
            if not session._registering and on_host(tensor):
                with TURN:
                    session._registering = True
                    try:
                        session.memory.register(tensor)
                    finally:
                        session._registering = False
            return plain(tensor)

        scope.set(torch.Tensor, "data_ptr", data_ptr)

    def run(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Compiled | None:
        """One call of `JITFunction.run`; with `warmup` nothing is launched, nor where a hook says so (None)."""
        kwargs = dict(kwargs)
        grid, warmup = kwargs.pop("grid"), kwargs.pop("warmup", False)
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        call = bind(kernel, args, kwargs, self.target)
        self.memory.settle(call.bound.arguments.values())
        if not compiles(kernel, args, kwargs, warmup, self._seen):
            return None
        compiled = Compiled(kernel, args, kwargs)
        if not warmup:
            with launch_hooks(compiled, call, grid):
                self._launch(kernel, grid, call)
            launched(lambda: (innermost() or self)._launch(kernel, grid, call))
        return compiled

    @contextlib.contextmanager
    def probing(self) -> Iterator[None]:
        """Launches try their first program only, and leave nothing behind."""
        before, self._probing = self._probing, True
        try:
            yield
        finally:
            self._probing = before

    def returned(self, place: tuple[str, int] | None, value: Any, tensor: Any) -> None:
        """The user's function returned a number or an array of numpy's, of which a tensor was made; `place`: where."""
        if isinstance(self._tracker, HostTracker):
            self._tracker.returned(value, tensor, place)

    def tell_literal(self, value: float) -> None:
        """A number of the user's code, in a launch or an operation that is run again without that code's frames."""
        if isinstance(self._tracker, HostTracker):
            self._tracker.numbers.literal.add(value)

    def tell_unknown(self, value: float) -> None:
        """A float of which nobody knows whether Python computed it from one that left torch."""
        if isinstance(self._tracker, HostTracker):
            numbers = self._tracker.numbers
            message = "a float that Python may have computed from one that left torch"
            numbers.note(value, Ends(value, value, frozenset({numbers.taint("RND302", "host number", message)})))

    def with_numbers(self, inputs: Any) -> Any:
        """Inputs with the open numbers among them as such that are followed."""
        if not isinstance(self._tracker, HostTracker):
            return inputs
        given = self._tracker.numbers.given
        return inputs.map(lambda x: given(float(x), x.ends) if isinstance(x, OpenNumber) else x)

    def number_ends(self, value: float, constant: bool = False) -> Ends | None:
        """Bounds of a float argument that left torch before; a constexpr one decides what is compiled."""
        numbers = self._tracker.numbers if self._tracker else None
        found = numbers.of(value) if numbers else None
        if found is not None and constant and numbers:
            numbers.branch("a number that rounding leaves open, as a constexpr,")
        return found

    def _launch(self, kernel: Any, grid: Any, call: KernelCall) -> None:
        """One launch; host tracking pauses while the kernel runs."""
        assert self._tracker is not None
        if self.most is not None and len(self.launches) >= self.most:
            raise Endless("RND309", f"the host code makes more than {self.most} launches")
        if self.hand is not None:
            grid, call = self.hand(self._handed, kernel, grid, call)
            self._handed += 1
        if self.change is None and (refusal := refused(kernel, call)) is not None:
            raise refusal.with_traceback(None)
        with self._tracker.paused():
            try:
                run_launch(self, kernel, grid, call, self._probing)
                failed = None
            except Exception as error:
                failed = error
        if failed is None:
            if isinstance(self._tracker, HostTracker) and not self._probing:  # a tape is told by its own session
                self._tracker.launched(call.arguments.values())
            return
        # Out here, so that what it is told with was not raised from it.
        found = failed if self.change is not None else instead(failed, kernel, call)
        raise failed if found is failed else found.with_traceback(None)


@cache
def _compiled_by(profile: Profile, triton: tuple[int, int]) -> Profile:
    """Made once: a profile has many fields, and every session begins with one."""
    return profile.chosen(triton=triton)


def _profile(device: str, settings: Settings) -> Profile:
    """The target's profile, under what bounds may assume of the compiler."""
    base = settings.get("profile")
    if base is None:
        base = _compiled_by(load_profile(device), versions.installed_triton())
    told = settings.get("triton_version")
    version = None if told is None else versions.triton_version(told)
    return base.chosen(settings.get("sum_order"), settings.get("fp_contraction"), version)
