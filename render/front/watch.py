"""The scope in which everything that is compared with a kernel's result is judged, as it happens."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from render.entry.execution import profile_called
from render.entry.target import is_tool_file
from render.front import elements, examples, scalars
from render.front.arrays import follow, lost, unfollowed
from render.front.comparisons import NothingToJudge, intercepted, listening, recording, silent, tensors_of
from render.front.differences import compared, fitted, from_data, opposed
from render.front.examples import Examples
from render.front.history import behind
from render.front.judge import ComparedSide, judge
from render.front.names import denied, handed_at, in_sight, names_of, only_looked_at, shows, user_frame, way
from render.front.operands import taken
from render.front.parts import own_part
from render.front.session import WatchedSession
from render.front.sources import follow_sources
from render.front.steps import Region
from render.front.tape import Tape, plain, unheard
from render.interpreter.compat import known_keys
from render.interpreter.scope import PatchScope
from render.interpreter.threads import Follower, followed
from render.interpreter.tuning import skip_benchmarks
from render.result.codes import EXIT_CODES, INTERNAL_ERROR, USAGE_ERROR
from render.result.defects import caught
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.footing import Footing, blamed
from render.result.options import Options
from render.result.places import relative
from render.result.progress import told_in_notebooks
from render.result.verdict import Verdict


@dataclass(frozen=True)
class Compared:
    """One comparison that code made: where, of what with what, and the verdict, or why there is none."""

    file: str
    line: int
    name: str
    reference: str
    verdict: Verdict | None
    error: Exception | None = None
    called_from: tuple[str, int] | None = None
    """Where both were handed to the function that compares them."""

    @property
    def exit_code(self) -> int:
        if self.verdict is not None:
            return self.verdict.exit_code
        if isinstance(self.error, UnsupportedOp):
            return EXIT_CODES["Inconclusive"]
        return USAGE_ERROR if isinstance(self.error, RenderError | KernelError) else INTERNAL_ERROR

    def to_dict(self) -> dict[str, Any]:
        called = dict(zip(("file", "line"), self.called_from, strict=True)) if self.called_from else None
        found: dict[str, Any] = {"file": self.file, "line": self.line, "called_from": called, "name": self.name,
                                 "reference": self.reference}  # fmt: skip
        if self.verdict is None:
            kind = {EXIT_CODES["Inconclusive"]: "Inconclusive"}.get(self.exit_code, "error")
            code = getattr(self.error, "code", "RND302" if kind == "Inconclusive" else "")
            at = {"file": getattr(self.error, "file", None), "line": getattr(self.error, "line", None) or 0}
            return {**found, "label": kind, "code": code, "location": at, "message": str(self.error), "verdict": None}
        at = {"file": self.verdict.file, "line": self.verdict.line}
        return {**found, "label": self.verdict.label, "code": self.verdict.code, "location": at,
                "message": self.verdict.message, "verdict": self.verdict.to_dict()}  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])
Tell = Callable[[Compared], None]
Operand = tuple[Region, torch.Tensor | None]
"""Where it lies, and the tensor as it is, where it is at hand."""


_AT_A_LINE = 8


@dataclass(frozen=True)
class _Read:
    """A value that host code read, which may be a difference."""

    place: Region
    until: int
    frame: FrameType
    line: int


class Watch(contextlib.AbstractContextManager["Watch"]):
    """Use as a context manager; `comparisons` in their order, `tell` is called with each. `notes`: what was not run.

    `listens`: comparisons are judged, `later`: once `settle` asks for them. `accepts`: one that fails and is Type-I is
    taken to succeed. `goes_on`: any that was judged is. `comparators`: further functions that compare, as
    `module:function`. `judging`: what is judged right now. `footing`: what there was before user code ran.
    """

    def __init__(
        self, options: Options | None = None, tell: Tell = lambda found: None, tape: Tape | None = None,
        listens: bool = True, later: bool = False, accepts: bool = False, goes_on: bool = False,
        comparators: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.options = options or Options()
        self.comparisons: list[Compared] = []
        self.unjudged: list[Compared] = []
        """What was compared although no kernel's result is on one side alone."""
        self.notes: list[str] = []
        self.tape = Tape() if tape is None else tape
        self.tell, self.listens, self.later, self.accepts = tell, listens, later, accepts
        self.goes_on, self.comparators = goes_on, comparators
        self._waiting: list[Callable[[], Compared | None]] = []
        self._examples = Examples[Callable[[], Compared | None]]()
        self._reads: list[_Read] = []
        self._single = elements.SingleElements()
        self.judging = ""
        self.footing: Footing | None = None
        self._busy = 0
        """The thread in which RENDER's own code runs."""
        self._outer: Watch | None = None
        self._stack = contextlib.ExitStack()
        self._known: dict[Any, Compared] = {}
        self._asked: dict[tuple[str, int], int] = {}
        profile_called(self.options.device)

    @property
    def busy(self) -> bool:
        """RENDER's own code runs in this thread."""
        return self._busy == get_ident()

    @property
    def verdicts(self) -> list[Verdict]:
        return [c.verdict for c in self.comparisons if c.verdict is not None]

    @property
    def launches(self) -> int:
        """Of all of its kernels."""
        return self._session.launched

    @property
    def host_told(self) -> str:
        """What the host asked of the device and was told, or ""."""
        return self._session.host_told or ""

    @property
    def findings(self) -> Sequence[Any]:
        """Memory findings of all launches."""
        return self._session.told

    def __enter__(self) -> Watch:
        if self.tape.open:  # inside of another scope, which writes the tape
            self._stack = contextlib.ExitStack()
            if self.listens:
                self._outer = self.tape.watches[-1] if self.tape.watches else None
                self._stack.enter_context(recording(self._take))
                self._heard(self._stack)
            return self
        with contextlib.ExitStack() as stack:
            scope = stack.enter_context(PatchScope())
            self._session = WatchedSession(self.options.device, self.tape, **self.options.for_session)
            stack.enter_context(self._session)
            stack.enter_context(followed(lambda: Follower(self.tape)))
            known_keys(scope)
            skip_benchmarks(scope, self.note)
            stack.enter_context(intercepted(self.comparators))
            # Attention by its definition: every operation of it has a rule.
            stack.enter_context(sdpa_kernel([SDPBackend.MATH]))
            if self.listens:
                self.tape.read = self.read
                stack.callback(setattr, self.tape, "read", unheard)
                stack.enter_context(recording(self._take))
                stack.enter_context(_Listener(self))
                stack.enter_context(followed(lambda: _Listener(self)))
                stack.callback(follow(scope, self))
                follow_sources(scope, self)
                scalars.follow(scope, self.tape, lambda: self.busy, self._looked_at)
                self.tape.left.met, self.tape.left.decides = self._met, self._decides
                self._heard(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.later:
            self.settle()
        self._stack.close()

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # comparisons
    def _take(self, left: Any, right: Any, file: str, line: int) -> bool | Callable[[], bool]:
        """A comparison by a function; it goes on as it always does."""
        if self.busy or denied(file, line):
            return True
        self.flush()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (file, line):
            frame = frame.f_back
        before = len(self.comparisons)
        for why in map(lost, (left, right)):
            if why:
                self.note(unfollowed(why))
        for a, b in zip(tensors_of(left), tensors_of(right), strict=False):
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                self.compare(a, b, file, line, frame)
        if self.goes_on and len(self.comparisons) > before:
            return False
        return partial(self._acceptable, before) if self.accepts else True

    def _acceptable(self, before: int) -> bool:
        """Whether round-off explains what was compared since."""
        self.settle()
        found = self.comparisons[before:]
        return bool(found) and all(c.verdict is not None and c.verdict.label == "Type-I" for c in found)

    def settle(self) -> None:
        """Judges what waits for it."""
        self.flush()
        self._judge_gathered()
        self._waiting += self._examples.over()
        while self._waiting:
            self._waiting.pop(0)()

    def forget(self) -> None:
        """Lets go of what waits to be judged, and of what was."""
        self._reads.clear()
        self._single.taken()
        self._waiting.clear()
        self._examples = Examples()
        self.comparisons.clear()
        self._known.clear()
        self.tape.left = self.tape.left.fresh()

    def __call__(self, function: F) -> F:
        """As a decorator: the scope is open in each call."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]

    def judged(self, a: torch.Tensor, b: torch.Tensor, frame: FrameType, options: Options) -> Verdict:
        """The verdict on two tensors as they are now. Raises NothingToJudge, and what a classification raises."""
        with self._own():
            one, two = (own_part(self.tape.known(x) or self.tape.place(x), self.tape.now) for x in (a, b))
            if not (one.cell.kernel or two.cell.kernel):
                raise NothingToJudge("no kernel had a part in either tensor")
            names, until = in_sight(frame, self.tape.known), self.tape.now
            first, second = names_of((one, two), until, names, frame.f_code.co_filename, frame.f_lineno)
            left, right = ComparedSide(one, first, a.detach().clone()), ComparedSide(two, second, b.detach().clone())
            return judge(left, right, until, options, {place.cell: name for place, name in names})

    def compare(
        self, a: torch.Tensor, b: torch.Tensor, file: str, line: int, frame: FrameType | None
    ) -> Compared | None:
        """Judges two tensors as they are now; None where no kernel's result is among them."""
        with self._own():
            places = [(self.tape.known(x) or self.tape.place(x)) if plain(x) else None for x in (a, b)]
            left, right = (x and own_part(x, self.tape.now) for x in places)
        if left is None or right is None or not (left.cell.kernel or right.cell.kernel):
            return None
        return self._judged((left, a), (right, b), self.tape.now, file, line, frame)

    def read(self, x: torch.Tensor) -> None:
        """Host code reads or prints a value."""
        place = self.tape.known(x) if listening() and not self.busy else None
        frame = user_frame() if place is not None and place.cell.kernel else None
        if place is not None and frame is not None and not denied(frame.f_code.co_filename, frame.f_lineno):
            self._reads.append(_Read(place, self.tape.now, frame, frame.f_lineno))

    def _looked_at(self, place: Region, frame: FrameType) -> bool:
        with self._own():
            return only_looked_at(frame) or compared(place, self.tape.now) is not None

    def flush(self) -> None:
        """Judges the differences that were read since."""
        while self._reads and not self.busy:
            read = self._reads.pop(0)
            with self._own():
                found = compared(read.place, read.until)
                loss = found is None and from_data(read.place, read.until)
            if loss:
                self.note(f"{relative(read.frame.f_code.co_filename)}:{read.line}: this is put against data and taken "
                          "for a loss; assert_close or assert_allclose would have it judged")  # fmt: skip
            if found is not None:
                left, right, until = found
                file, line = read.frame.f_code.co_filename, read.line
                if self._gathered((left, until), (right, until), read.frame, line):
                    continue
                self._judged((left, None), (right, None), until, file, line, read.frame)

    def _met(self, one: scalars.Scalar, two: scalars.Scalar) -> None:
        """Two numbers are put against each other: judged where they, or the tensors that they were read from, are a
        result and a reference."""
        if self.busy or not listening():
            return
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and (is_tool_file(frame.f_code.co_filename) or shows(frame)):
            frame = frame.f_back
        if frame is not None and one.source and two.source and self._gathered(one.source, two.source, frame):
            return
        left, right, until = self._sides(one, two)
        if not opposed(left, right, until):
            return
        mine, other = (left, right) if left.cell.kernel else (right, left)
        if frame is not None and self._may_ask(frame, mine is one.alone or mine is two.alone):
            self._judged((mine, None), (other, None), until, frame.f_code.co_filename, frame.f_lineno, frame)

    def _gathered(self, one: elements.Place, two: elements.Place, frame: FrameType, line: int | None = None) -> bool:
        """Whether these are single elements of tensors, whose verdict is asked for with that of their neighbours."""
        at = elements.ComparingLine(frame.f_code.co_filename, line or frame.f_lineno, frame)
        return self._single.add(one, two, at, len(self.comparisons))

    def _judge_gathered(self) -> None:
        """Single elements, by line; their comparisons stand where their first one was made."""
        shift = 0
        for found in self._single.taken():
            with self._own():
                sides = found.sides()
            if sides is None:
                continue
            left, right, until = sides
            before, at = len(self.comparisons), found.at
            self._judged((left, None), (right, None), until, at.file, at.line, at.frame)
            if len(self.comparisons) == before + 1:
                self.comparisons.insert(found.before + shift, self.comparisons.pop())
                shift += 1

    def _decides(self, ask: Callable[[], scalars.Recipe], frame: FrameType) -> None:
        """Code of the user's asks something of a number, and goes on as it says."""
        user = not self.busy and not is_tool_file(frame.f_code.co_filename)
        if user and (lines := way(frame)) is not None:
            self.tape.decides(ask(), frame, lines)

    def _sides(self, one: scalars.Scalar, two: scalars.Scalar) -> tuple[Region, Region, int]:
        """The tensors that two numbers come from, if their elements fit each other; else of each number its own."""
        if one.source and two.source:
            with self._own():
                fitting = fitted(own_part(*one.source), own_part(*two.source))
            if fitting:
                return *fitting, max(one.source[1], two.source[1])
        with self._own():
            left, right = map(self.tape.number, (one, two))
        return left, right, self.tape.now

    def _may_ask(self, frame: FrameType, numbers: bool) -> bool:
        """Single numbers are judged `_AT_A_LINE` times for each line: a loop over elements has many."""
        at = frame.f_code.co_filename, frame.f_lineno
        self._asked[at] = self._asked.get(at, 0) + numbers
        if self._asked[at] > _AT_A_LINE:
            self.note(f"{relative(at[0])}:{at[1]}: the first {_AT_A_LINE} numbers that are compared here are judged; "
                      "compare tensors to have all of them judged")  # fmt: skip
        return not numbers or self._asked[at] <= _AT_A_LINE

    def _judged(
        self, one: Operand, two: Operand, until: int, file: str, line: int, frame: FrameType | None
    ) -> Compared | None:
        for conclude in self._examples.over(frame):
            self._waiting.append(conclude) if self.later else conclude()
        for place, _ in (one, two):
            self.tape.seen(place.cell)
        last = (max((s.time for s in place.cell.steps if s.time <= until), default=0) for place, _ in (one, two))
        key = (one[0], two[0], *last)
        if (known := self._known.get(key)) is not None and known.line == line:
            return known
        with self._own():
            names = in_sight(frame, self.tape.known)
            called = names_of((one[0], two[0]), until, names, file, line)
            left, right = (ComparedSide(place, name, None if x is None else x.detach().clone())
                           for (place, x), name in zip((one, two), called, strict=True))  # fmt: skip
            called_from = handed_at(frame, (one[0], two[0]), called, until, self.tape.known)
        inputs = {place.cell: name for place, name in names}
        found = Compared(file, line, left.name, right.name, None, called_from=called_from)

        def ask() -> Verdict:
            while True:
                try:
                    return asked()
                except NothingToJudge:  # unless both are one number that left and came back
                    if not any(self.tape.disown(behind(side.place, until)) for side in (right, left)):
                        raise

        def asked() -> Verdict:
            self.judging = f"judging {left.name} against {right.name}, {relative(file)}:{line}"
            try:
                with told_in_notebooks(self.judging, self.options) as options:
                    return judge(left, right, until, options, inputs)
            finally:
                self.judging = ""

        conclude = partial(self._conclude, key, found, ask)
        if self._examples.waits(frame, (file, line), conclude):
            self.note(examples.NOTE)
        elif not self.later:
            return conclude()
        else:
            self._waiting.append(conclude)
        return None

    def _conclude(self, key: Any, found: Compared, ask: Callable[[], Verdict]) -> Compared | None:
        with contextlib.nullcontext() if self.footing is None else self.footing.mended():
            return self._concluded(key, found, ask)

    def _concluded(self, key: Any, found: Compared, ask: Callable[[], Verdict]) -> Compared | None:
        known = self._known.get(key)
        if known is not None:
            found = replace(found, verdict=known.verdict, error=known.error)
        else:
            try:
                with self._own():
                    found = replace(found, verdict=ask())
            except NothingToJudge:
                self.unjudged.append(found)
                return None
            except Exception as error:  # the script goes on; what went wrong stands in the report
                caught(error, "a comparison of a script")
                found = replace(found, error=blamed(error))
        self._known[key] = found
        self._told(found)
        return found

    def _told(self, found: Compared) -> None:
        """A comparison of this scope, or of one inside of it."""
        self.comparisons.append(found)
        self.tell(found)
        if self._outer is not None:
            self._outer._told(found)

    def _heard(self, stack: contextlib.ExitStack) -> None:
        """Scopes inside of this one tell it what they judge."""
        self.tape.watches.append(self)
        stack.callback(self.tape.watches.remove, self)

    @contextlib.contextmanager
    def _own(self) -> Iterator[None]:
        """What runs inside is RENDER's: neither recorded nor heard."""
        with self.tape.paused(), silent():
            before, self._busy = self._busy, get_ident()
            try:
                yield
            finally:
                self._busy = before


_LEAVING = (
    torch.Tensor.__repr__,
    torch.Tensor.numpy,
    torch.Tensor.__array__,
    torch.Tensor.tolist,
    torch.Tensor.__dlpack__,
)
"""What they hand out may be looked at unseen."""
_TAKING = (torch.tensor, torch.as_tensor, torch.asarray)
"""They make a tensor of an array's numbers."""


class _Listener(TorchFunctionMode):
    """Judges differences as soon as the call that read one has returned, outside of torch's dispatcher."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        watch = self.watch
        if watch.busy or not watch.tape.open:
            return func(*args, **(kwargs or {}))
        if func in _LEAVING and plain(args[0]) and (place := watch.tape.known(args[0])) is not None:
            watch.tape.seen(place.cell)
        if func is torch.Tensor.__repr__ and plain(args[0]):
            watch.read(args[0])
        out = func(*args, **(kwargs or {}))
        if func in _TAKING and args and plain(out):
            with watch._own():
                if isinstance(args[0], np.ndarray | np.generic):
                    watch.tape.loaded(out)
                elif isinstance(args[0], list | tuple | float):
                    watch.tape.assembled(out, args[0])
        if watch._reads:
            watch.flush()
        return taken(args[0], out) if func in _TAKING and args else out
