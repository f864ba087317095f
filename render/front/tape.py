"""Writes down what host code computes and launches, so that the history of any tensor can be run again.

Host operations are seen by dispatch, below autograd; launches come from the session (`render.front.session`). What a
tensor is follows from its storage and its place in it: autograd replaces tensor objects, storages stay. Storages that
come from outside, and random numbers, are *given*: their bytes are copied when they are first seen. A step refers to
the storages it reads and writes, these to the steps that wrote them; what no living tensor rests on is let go.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._ops import HigherOrderOperator
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from render.front.returning import CameBack, LeftCopies
from render.front.scalars import (
    Assembled,
    LeftScalars,
    ReadElement,
    Recipe,
    Scalar,
    Untold,
    elements,
    flattened,
    rests_on,
)
from render.front.steps import (
    BETWEEN,
    Cell,
    DecidedByPython,
    Given,
    GovernedLines,
    Holder,
    HostOperation,
    Launched,
    Region,
    TapeStep,
)
from render.interpreter.arguments import KernelCall
from render.interpreter.cuda_redirect import on_host
from render.interpreter.graphs import unrecorded
from render.interpreter.host import ALLOCATIONS
from render.interpreter.hosted.overloads import host_site, operation, written_arguments
from render.interpreter.memory.unwritten import fill_fresh
from render.interpreter.no_gpu import Untracked
from render.interpreter.threads import TURN
from render.ops.aten import Form, of_form
from render.ops.parts import in_parts

RANDOM = of_form(Form.RANDOM)
_POINTERS = 1 << 16
"""Integer tensors of up to so many elements are searched for addresses."""
_SWEEP = 1024
_LARGEST_OF = {torch.float16: 65504.0, torch.bfloat16: 2.0**127}


class Tape(Untracked, TorchDispatchMode):
    """The recording; stands in a session for what follows its host code.

    `read` is told of every number that host code reads from a tensor; `open`: a scope writes to it now;
    `watches`: the scopes that judge, the innermost last.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.read: Callable[[torch.Tensor], None] = unheard
        self.launches = 0
        self._cells: dict[int, Cell] = {}
        self._time = self._paused = 0
        self._next_sweep = _SWEEP
        self._unseen: dict[int, tuple[Cell, str]] = {}
        self.left, self.copies = LeftScalars(), LeftCopies()
        self.open = False
        self.watches: list[Any] = []
        self._ways: list[GovernedLines] = []
        self._given_back: WeakKeyDictionary[Cell, tuple[Given, list[HostOperation]]] = WeakKeyDictionary()

    def __enter__(self) -> Any:
        self.open = True
        return TorchDispatchMode.__enter__(self)

    def __exit__(self, *exc: object) -> None:
        self.open = False
        self.left, self.copies = LeftScalars(), LeftCopies()
        self._ways.clear()
        self._sweep()
        TorchDispatchMode.__exit__(self, *exc)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What runs inside is RENDER's own."""
        with TURN:
            self._paused += 1
            try:
                with unrecorded():
                    yield
            finally:
                self._paused -= 1

    # places
    def place(self, tensor: torch.Tensor) -> Region:
        """Where a tensor lies; a storage that was not seen before is given."""
        if (found := self._wrapped(tensor)) is not None:
            return found
        cell = self._cell(tensor)
        return Region(cell, tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), int(tensor.storage_offset()))

    def known(self, tensor: torch.Tensor) -> Region | None:
        """The place of a tensor in a storage that was seen; memory wrapped again (`numpy()`) is found by address."""
        if tensor.untyped_storage()._cdata in self._cells:
            return self.place(tensor)
        return self._at_its_address(tensor)

    def _wrapped(self, tensor: torch.Tensor) -> Region | None:
        """The place of memory that was handed to numpy and came back."""
        storage = tensor.untyped_storage()
        foreign = storage._cdata not in self._cells and not storage.resizable()
        return self._at_its_address(tensor) if foreign else None

    def _at_its_address(self, tensor: torch.Tensor) -> Region | None:
        storage = tensor.untyped_storage()
        first = storage.data_ptr() + int(tensor.storage_offset()) * tensor.itemsize
        cell = self._at(first)
        if cell is None or (first - cell.address) % tensor.itemsize:
            return None
        offset = (first - cell.address) // tensor.itemsize
        return Region(cell, tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), offset)

    def follows(self, tensor: torch.Tensor) -> bool:
        """Whether numbers that are read from it now are to be made again."""
        return self.open and not self._paused and plain(tensor)

    def assembled(self, tensor: torch.Tensor, data: Any) -> None:
        """Just made of Python's numbers: where some of them left torch before, it rests on these."""
        told = [self.left.of(x) if isinstance(x, float) else x for x in flattened(data)]
        cell = self._cells.get(tensor.untyped_storage()._cdata) or self.give(tensor, made=True)
        if len(told) != tensor.numel() or not any(isinstance(x, ReadElement | Recipe | Untold) for x in told):
            for given in [s for s in cell.steps if isinstance(s, Given)]:
                self._came_back(cell, given)
            return
        cell.steps.clear()
        step = HostOperation(self._tick(), tuple(dict.fromkeys(rests_on(told))), (cell,), host_site(), True,
                             func=Assembled(tuple(tensor.shape), tensor.dtype), args=tuple(told),
                             made=(self.place(tensor),))  # fmt: skip
        self._add(step, any(c.kernel for c in step.reads))

    def number(self, x: Scalar) -> Region:
        """A tensor of one number that left, in the narrowest format that it was computed from and that holds it."""
        if x.alone is None:
            narrowest = min((e.place.dtype for e in elements([x.recipe])), key=lambda dtype: dtype.itemsize)
            fits = abs(x) < _LARGEST_OF.get(narrowest, 0.0) or narrowest.itemsize > 2
            made = torch.full((), float(x), dtype=narrowest if fits else torch.bfloat16)
            self.assembled(made, x)
            x.alone = self.place(made)
        return x.alone

    def asked(self, tensor: torch.Tensor) -> None:
        """Host code takes the tensor's address."""
        if not self._paused and plain(tensor):
            with self.paused():
                cell = self._cell(tensor)
            cell.asked = True
            self.leaves(tensor)

    def seen(self, cell: Cell) -> None:
        """Something looks at what the storage holds now."""
        self._unseen.pop(id(cell), None)

    def equal(self, again: Mapping[Cell, Cell]) -> None:
        """Two launches stored one result into these: what is seen of one is seen of the other."""
        for old, new in again.items():
            self.seen(old if id(old) in self._unseen else new)

    @property
    def unseen(self) -> list[str]:
        """What kernels stored and nothing has looked at since, as "`parameter` of `kernel`, file:line"."""
        return list(dict.fromkeys(text for _, text in self._unseen.values()))

    def _at(self, address: int) -> Cell | None:
        live = (c for c in self._cells.values() if c.address <= address < c.address + max(c.nbytes, 1))
        return next((c for c in live if c.storage and not c.storage.expired()), None)

    def _cell(self, tensor: torch.Tensor) -> Cell:
        if (wrapped := self._wrapped(tensor)) is not None:
            return wrapped.cell
        found = self._cells.get(tensor.untyped_storage()._cdata)
        return self.give(tensor) if found is None else found

    def _new(self, tensor: torch.Tensor) -> Cell:
        storage = tensor.untyped_storage()
        if len(self._cells) > self._next_sweep:
            self._sweep()
        cell = Cell(storage.data_ptr(), storage.nbytes(), tensor.dtype, StorageWeakRef(storage))
        self._cells[storage._cdata] = cell
        return cell

    def _sweep(self) -> None:
        """Lets go of storages that are gone; others may still rest on them."""
        self._cells = {key: cell for key, cell in self._cells.items() if cell.storage and not cell.storage.expired()}
        self._next_sweep = 2 * len(self._cells) + _SWEEP

    def give(self, tensor: torch.Tensor, made: bool = False, here: bool = False) -> Cell:
        """A storage as it is now. `here`: something in its place wrote it, so it did not come back."""
        known = self._cells.get(tensor.untyped_storage()._cdata)
        cell = known or self._new(tensor)
        count = cell.nbytes // tensor.itemsize
        with self.paused(), torch.no_grad():
            data = torch.as_strided(tensor.detach(), (count,), (1,), 0).clone()
            pointers = tuple(self._pointers(data)) if data.dtype in (torch.int64, torch.uint64) else ()
        reads = tuple(dict.fromkeys(target for _, target, _ in pointers))
        step = Given(self._tick(), reads, (cell,), host_site(), True, data=data, pointers=pointers,
                     made=made, foreign=not tensor.untyped_storage().resizable())  # fmt: skip
        cell.dtype = tensor.dtype
        cell.steps.append(step)
        if not made and not here:
            self._came_back(cell, step)
        return cell

    def leaves(self, tensor: torch.Tensor) -> None:
        """What was computed leaves torch, and may come back (`returning`)."""
        if not self.follows(tensor) or not tensor.is_floating_point() or (place := self.known(tensor)) is None:
            return
        last = place.cell.steps[-1] if place.cell.steps else None
        bare = isinstance(last, HostOperation) and getattr(last.func, "_opname", "") in ALLOCATIONS
        if last is None or bare or isinstance(last, Given) or self.copies.knows((place, last.time)):
            return
        with torch.no_grad():
            copied = tensor.detach().reshape(-1).clone()
        self.copies.keep(copied, self.place(copied), (place, last.time))

    def _came_back(self, cell: Cell, given: Given) -> None:
        """What was given left before: it rests on that."""
        if not self.copies and not self.left:
            return
        with self.paused(), torch.no_grad():
            parts = self.copies.found(given.data, self.left.back)
            columns = list(self.copies.columns(given.data)) if parts is None else []
            within = list(self.copies.inside(given.data)) if parts is None and not columns else []
        if parts is not None:
            cells = tuple(dict.fromkeys((*(x.cell for x in parts if isinstance(x, Region)), *rests_on(parts))))
            place = Region(cell, given.data.dtype, (given.data.numel(),), (1,), 0)
            made = [HostOperation(given.time, cells, (cell,), given.site, True, func=CameBack(given.data.dtype),
                                  args=tuple(parts), made=(place,))]  # fmt: skip
            cell.steps.remove(given)
        else:
            made = []
            dtype = given.data.dtype
            places = [(one, Region(cell, dtype, one.place.size, (width,), at)) for one, at, width in columns]
            places += [(one, Region(cell, one.values.dtype, one.place.size, (1,), start // one.values.itemsize))
                       for one, start in within]  # fmt: skip
            for one, place in places:
                made.append(HostOperation(self._tick(), (one.place.cell,), (cell,), given.site, made=(place,),
                                          func=torch.ops.aten.copy_.default, args=(place, one.place)))  # fmt: skip
        for step in made:
            self._add(step, any(c.kernel for c in step.reads))
        if made:
            self._given_back[cell] = given, made

    def from_text(self, value: float) -> float:
        """A number that was read from text, as what left, if it is that."""
        found = None
        if self.open and not self._paused and self.copies:
            with self.paused(), torch.no_grad():
                found = self.copies.element(value)
        if found is None:
            return value
        one, i = found
        told: float = self.left.scalar(value, ReadElement(one.place, i, host_site()), (one.place, self.now))
        return told

    def came_back(self, cell: Cell) -> bool:
        """Whether what the storage holds left before."""
        return cell in self._given_back

    def disown(self, cells: Iterable[Cell]) -> bool:
        """What came back, among what these storages hold, is given after all; whether there is any."""
        found = [(c, *self._given_back.pop(c)) for c in list(cells) if c in self._given_back]
        for cell, given, made in found:
            cell.steps = [given, *(s for s in cell.steps if s is not given and s not in made)]
        return bool(found)

    def _pointers(self, data: torch.Tensor) -> Iterator[tuple[int, Cell, int]]:
        """Addresses that host code put into a tensor."""
        taken = [cell for cell in self._cells.values() if cell.asked and cell.storage and not cell.storage.expired()]
        if not taken or data.numel() > _POINTERS:
            return
        for i, value in enumerate(data.view(torch.int64).tolist()):
            cell = next((c for c in taken if c.address <= value < c.address + max(c.nbytes, 1)), None)
            if cell is not None:
                yield i, cell, value - cell.address

    def _tick(self) -> int:
        self._time += BETWEEN
        return self._time

    @property
    def now(self) -> int:
        return self._time

    def overwritten(self, tensor: torch.Tensor) -> None:
        """Something that is no operation of torch wrote to its storage: the bytes are given anew."""
        cell = self._cells.get(tensor.untyped_storage()._cdata)
        if cell is not None:
            step = self.give(tensor, here=True).steps[-1]
            assert isinstance(step, Given)
            step.foreign = True

    def loaded(self, tensor: torch.Tensor) -> None:
        """Its numbers were computed elsewhere."""
        cell = self._cell(tensor)
        for step in list(cell.steps):
            if isinstance(step, Given):
                step.made, step.foreign = False, True
                self._came_back(cell, step)

    # host operations
    @in_parts
    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with TURN:
            return self._seen(func, args, dict(kwargs or {}))

    def _seen(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if self._paused or isinstance(func, HigherOrderOperator):
            return func(*args, **named)
        rule = operation(func)
        if rule.view or rule.name == "set":
            if rule.name == "lift_fresh" and plain(args[0]) and args[0].untyped_storage().resizable():
                self.give(args[0], made=True)  # numbers in the code; an array's memory is not torch's own
                self._set_to(args[0])
            return func(*args, **named)
        given = [x for x in tree_flatten((args, named))[0] if isinstance(x, torch.Tensor)]
        if not all(plain(x) for x in given):
            return func(*args, **named)
        frozen = tree_map(self._frozen, (args, named))
        if rule.name in ("_local_scalar_dense", "nonzero"):  # how many there are is told by a shape
            self.seen(self._cell(args[0]))
            self.read(args[0])
        if rule.name == "_local_scalar_dense":
            return func(*args, **named)
        out = func(*args, **named)
        self._note(func, rule.name, frozen, given, written_arguments(rule, args, named), out)
        return out

    def _set_to(self, tensor: torch.Tensor) -> None:
        """The tensor that torch makes of x in `o[i] = x`: a number that left, where it is one."""
        if self.left and tensor.dim() == 0 and tensor.is_floating_point():
            with self.paused():
                x = float(tensor)
                if isinstance(self.left.of(x), ReadElement | Recipe):
                    self.assembled(tensor, x)

    def _frozen(self, x: Any) -> Any:
        if isinstance(x, float):
            return self.left.of(x)
        return self.place(x) if isinstance(x, torch.Tensor) else x

    def _note(
        self, func: Any, name: str, frozen: Any, given: list[torch.Tensor], targets: list[torch.Tensor], out: Any
    ) -> None:
        returned = [x for x in tree_flatten(out)[0] if isinstance(x, torch.Tensor)]
        before = {x.untyped_storage()._cdata for x in given}
        fresh = [x for x in returned if plain(x) and x.untyped_storage()._cdata not in before]
        kernel = any(self._cell(x).kernel for x in given)
        if name in RANDOM:
            self._drawn(name, frozen, [*fresh, *targets], kernel)
            return
        if name in ALLOCATIONS:
            for x in fresh:
                fill_fresh(x)
        cells = [self._new(x) for x in fresh]
        numbers = rests_on(tree_flatten(frozen)[0])
        kernel = kernel or any(cell.kernel for cell in numbers)
        reads = tuple(dict.fromkeys((*(self._cell(x) for x in given), *numbers)))
        writes = (*cells, *dict.fromkeys(self._cell(x) for x in targets))
        for cell in reads:
            self.seen(cell)
        if not writes:
            return
        made = tuple(self.place(x) if plain(x) else None for x in returned)
        self._add(HostOperation(self._tick(), reads, writes, host_site(), not targets, func=func, args=frozen[0],
                            kwargs=frozen[1], made=made), kernel)  # fmt: skip

    def _drawn(self, name: str, frozen: Any, results: list[torch.Tensor], kernel: bool) -> None:
        """Random numbers: what was drawn is given; a dropout is the product with its mask."""
        if name == "native_dropout":
            out, mask = results
            self.give(mask, made=True)
            cell, (x, p) = self._new(out), frozen[0][:2]
            step = HostOperation(self._tick(), (x.cell, self._cell(mask)), (cell,), host_site(), True, func=_dropped,
                             args=(x, self.place(mask), p), made=(self.place(out),))  # fmt: skip
            self._add(step, kernel)
            return
        for x in results:
            if x.numel() * x.itemsize == x.untyped_storage().nbytes():
                self.give(x, made=True)
                continue
            drawn = self.place(x.detach().clone())
            place = self.place(x)
            copied = torch.ops.aten.copy_.default
            self._add(HostOperation(self._tick(), (drawn.cell,), (place.cell,), host_site(), func=copied,
                                args=(place, drawn), made=(place,)), kernel)  # fmt: skip

    def decides(self, number: Recipe | ReadElement, frame: FrameType, lines: tuple[int, int]) -> None:
        """By a number, the code of a frame goes on in these lines, or does not."""
        cells = tuple(rests_on([number]))
        if self._paused or not cells:
            return
        cell = Cell(0, 0, torch.bool, None)
        reads = (*cells, *self._decisions())
        cell.steps.append(DecidedByPython(self._tick(), reads, (cell,), host_site(), True, number=number))
        self._ways.append(GovernedLines(frame, *lines, cell))

    def _decisions(self) -> tuple[Cell, ...]:
        """Those that what happens now rests on; frames that are left are let go of."""
        lines: dict[FrameType, int] = {}
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            lines[frame] = frame.f_lineno
            frame = frame.f_back
        self._ways = [w for w in self._ways if w.first <= lines.get(w.frame, -1) <= w.last]
        return tuple(w.cell for w in self._ways)

    def _add(self, step: TapeStep, kernel: bool) -> None:
        if self._ways:
            step.reads = tuple(dict.fromkeys((*step.reads, *self._decisions())))
        for cell in step.writes:
            cell.steps.append(step)
            cell.kernel = cell.kernel or kernel

    # launches
    def launching(self, kernel: Any, grid: tuple[int, ...], call: KernelCall) -> Launched:
        """A launch as it is about to run."""
        cells: list[Cell] = []
        args = {name: self._argument(value, cells) for name, value in call.arguments.items()}
        for cell in list(cells):  # addresses inside of tensors
            cells += [t for s in cell.steps if isinstance(s, Given) for _, t, _ in s.pointers]
        return Launched(self._tick(), tuple(dict.fromkeys(cells)), (), host_site(), kernel=kernel, grid=grid, call=call,
                        args=args)  # fmt: skip

    def wrote(self, step: Launched, stored: Sequence[Any]) -> None:
        """It ran, and stored to these storages of the interpreter's memory."""
        found = [self._cells.get(getattr(s.keep, "_cdata", 0)) or self._at(s.base) for s in stored]
        step.writes = tuple(dict.fromkeys(c for c in found if c is not None))
        for cell in step.reads:
            self.seen(cell)
        names = step.names
        self._unseen |= {id(c): (c, names[id(c)]) for c in step.writes if id(c) in names}
        step.reads = tuple(dict.fromkeys((*step.reads, *step.writes)))
        self.launches += 1
        self._add(step, True)

    def _argument(self, value: Any, cells: list[Cell]) -> Any:
        if isinstance(value, torch.Tensor):
            place = self.place(value)
            cells.append(place.cell)
            return place
        if isinstance(value, float):
            found = self.left.of(value)
            cells += rests_on([found])
            return found
        if isinstance(value, tuple | list):
            parts = [self._argument(v, cells) for v in value]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if not callable(getattr(value, "data_ptr", None)) and type(value).__name__ != "TensorDescriptor":
            return value
        inner = {n: v for n, v in vars(value).items() if isinstance(v, torch.Tensor) or hasattr(v, "data_ptr")}
        return Holder(value, {n: self._argument(v, cells) for n, v in inner.items()})


def unheard(x: torch.Tensor) -> None:
    """In place of a reader."""


def _dropped(x: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    """x where it was kept, over the share that is kept."""
    found: torch.Tensor = torch.ops.aten.mul.Tensor(torch.ops.aten.mul.Tensor(x, mask), 1 / (1 - p) if p < 1 else 0.0)
    return found


def plain(t: torch.Tensor) -> bool:
    """A dense CPU tensor with memory."""
    own = type(t) is torch.Tensor or isinstance(t, torch.nn.Parameter)
    return own and t.layout == torch.strided and on_host(t) and not t.is_quantized
