"""The state that functions hold besides their arguments (`held.walk`), so that every call of them finds the same.

What a call changes of it is put back where it lies: memory of tensors and arrays, containers, attributes, variables of
closures and modules, generators of random numbers. Where a call draws random numbers, what it puts where nothing was
(into a cache, an attribute that is None before) stays: a call that misses it there draws others. So does what modules
of the user's register that a call imports.
"""

from __future__ import annotations

import copy
import random
import sys
import warnings
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from types import CellType, FunctionType
from typing import Any

import numpy as np
import torch
from numpy.lib.array_utils import byte_bounds

from render.entry.held import CACHED, MOST, is_object, is_of_tools, is_users_own, slot_names, slots_of, spaces_of, walk
from render.result.defects import caught

Named = dict[Any, Any]
Back = Callable[[], None]
_EVERYBODYS: tuple[Any, ...] = (torch.default_generator, np.random.mtrand._rand, random._inst)  # type: ignore[attr-defined]


def seeded(seed: int) -> None:
    """Everybody's generators of random numbers begin anew."""
    torch.default_generator.manual_seed(seed)  # every device is the CPU here
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the user's code may draw from it
    random.seed(seed)


def drawn() -> tuple[Any, ...]:
    """How far everybody's generators are: another value once somebody has drawn."""
    numpys: Any = np.random.get_state()  # noqa: NPY002 - as above
    return torch.default_generator.get_state().numpy().tobytes(), bytes(numpys[1]), numpys[2], random.getstate()


@contextmanager
def once(held: HeldState | None) -> Iterator[None]:
    """The body is a call. What it fills while it draws random numbers, or imports modules of the user's, stays: neither
    comes a second time."""
    before, loaded = drawn(), set(sys.modules)
    yield
    if held is not None and (drawn() != before or any(map(is_users_own, set(sys.modules) - loaded))):
        held.keep_filled()


class HeldState:
    """What `roots` hold, as it is when this is made."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._roots = list(roots)
        self._memory: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._arrays: list[np.ndarray] = []
        self._places: list[_Places | _Items] = []
        self._back: list[Back] = []
        self.partly = False
        """Whether they hold more than is looked at."""
        self._steps: set[int] = set()
        """Ids of what optimisers fill as they step, which is no cache."""
        self._keep(self._roots)

    def restore(self, repeated: bool = True) -> None:
        """Everything is as it was. `repeated`: iterators are copies, so that it can be so again."""
        memo: Named = {}
        for places in self._places:
            places.restore(memo if repeated else None)
        for back in self._back:
            back()
        for storage, numbers in self._memory.values():
            if storage.nbytes() != numbers.nbytes():
                storage.resize_(numbers.nbytes())
            storage.copy_(numbers)

    def keep_filled(self) -> None:
        """What a call has put where nothing was stays from now on."""
        self._keep([x for places in self._places for x in places.filled()])

    @contextmanager
    def lent(self) -> Iterator[None]:
        """After the body the user finds what there was before it."""
        now = HeldState([*self._roots, *_EVERYBODYS])
        try:
            yield
        finally:
            now.restore(repeated=False)

    def apart(self, x: torch.Tensor) -> torch.Tensor:
        """x, in memory of its own where the next call would change it."""
        if x.layout is not torch.strided or x.is_meta:
            return x
        storage = x.untyped_storage()
        shared = storage._cdata in self._memory or any(_begins_within(storage.data_ptr(), a) for a in self._arrays)
        return x.clone() if shared else x

    def _keep(self, roots: list[Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of old names that modules still answer to
            for count, (_, x) in enumerate(walk(roots)):
                self.partly = self.partly or count >= MOST
                try:
                    self._keep_one(x)
                except Exception as error:  # as in `walk`
                    caught(error, "the state that a function holds")

    def _keep_one(self, x: Any) -> None:
        if isinstance(x, torch.Tensor):
            self._keep_tensor(x)
        elif isinstance(x, np.ndarray):
            self._keep_array(x)
        elif (back := _state(x)) is not None:
            self._back.append(back)
        else:
            if isinstance(x, torch.optim.Optimizer):
                self._steps |= {id(x), id(x.state), *map(id, x.state.values())}
            for found in _places(x):
                if isinstance(found, _Places) and id(x) in self._steps:
                    found.fills = False
                self._places.append(found)

    def _keep_tensor(self, x: torch.Tensor) -> None:
        if x.layout is not torch.strided or x.is_meta or type(x) not in (torch.Tensor, torch.nn.Parameter):
            return
        storage, seen = x.untyped_storage(), x.detach()
        if storage._cdata not in self._memory:
            self._memory[storage._cdata] = storage, storage.clone()
        grad, wanted = x.grad if x.is_leaf else None, x.requires_grad

        def back() -> None:
            if (x.data_ptr(), x.size(), x.stride()) != (seen.data_ptr(), seen.size(), seen.stride()):
                x.data = seen
            if x.is_leaf and (x.requires_grad is not wanted or x.grad is not grad):
                x.requires_grad_(wanted).grad = grad

        self._back.append(back)

    def _keep_array(self, x: np.ndarray) -> None:
        if x.flags.writeable:
            numbers = x.copy()
            self._arrays.append(x)
            self._back.append(lambda: np.copyto(x, numbers))


@dataclass
class _Places:
    """Names with values: all of a namespace or some; `write` gets all that are to be there and those that are not."""

    read: Callable[[], Named]
    write: Callable[[Named, Named], None]
    fills: bool = True
    """Whether something that was missing may stay."""
    saved: Named = field(default_factory=dict)
    moves: bool = False
    """Whether an iterator is among the values."""

    def __post_init__(self) -> None:
        self.saved = self.read()
        self.moves = _any_moves(self.saved.values())

    def restore(self, memo: Named | None) -> None:
        now, wanted = self.read(), self.saved
        if self.moves and memo is not None:
            wanted = {k: _again(v, memo) for k, v in wanted.items()}
        same = len(now) == len(wanted) and all(map(is_, now, wanted))
        if not same or not all(map(is_, now.values(), wanted.values())):
            self.write(wanted, {k: v for k, v in now.items() if k not in wanted})

    def filled(self) -> list[Any]:
        """What is there and was not; it belongs to what is saved from now on."""
        if not self.fills:
            return []
        new = {k: v for k, v in self.read().items() if v is not None and self.saved.get(k) is None}
        self.saved |= new
        return list(new.values())


def _places(x: Any) -> list[_Places | _Items]:
    """The names that an object of any kind holds values by."""
    if isinstance(x, FunctionType):
        if is_of_tools(x.__module__):
            return []
        cells = [_cell(cell) for cell in x.__closure__ or ()]
        return [*cells, *(_some(space, names) for _, space, names in spaces_of(x)), _all(vars(x))]
    if isinstance(x, type):
        return [_class(x)] if is_users_own(x.__module__) else []
    if isinstance(x, CACHED):  # what was there before nobody can tell
        return [_cache(x)] if x.cache_info().currsize == 0 else []
    found: list[_Places | _Items] = [_all(x)] if isinstance(x, dict) else []
    found += [_Items(x)] if isinstance(x, list | deque | set | bytearray | array) else []
    if is_object(x):
        found += [_all(vars(x))] if hasattr(x, "__dict__") else []
        found += [_slots(x)] if slot_names(x) else []
    return found


def _all(space: Named) -> _Places:
    kind: Any = OrderedDict if isinstance(space, OrderedDict) else dict

    def write(wanted: Named, gone: Named) -> None:
        kind.clear(space)
        kind.update(space, wanted)

    return _Places(lambda: dict(kind.items(space)), write)


def _some(space: Named, names: Iterable[str]) -> _Places:
    def write(wanted: Named, gone: Named) -> None:
        space.update(wanted)
        for name in gone:
            del space[name]

    return _Places(lambda: {n: space[n] for n in names if n in space}, write)


def _attributes(x: Any, read: Callable[[], Named], owner: Any) -> _Places:
    def write(wanted: Named, gone: Named) -> None:
        with suppress(AttributeError, TypeError):  # what cannot be set was not changed either
            for name in gone:
                owner.__delattr__(x, name)
            for name, value in wanted.items():
                if read().get(name, gone) is not value:
                    owner.__setattr__(x, name, value)

    return _Places(read, write)


def _class(x: type) -> _Places:
    return _attributes(x, lambda: {n: v for n, v in vars(x).items() if not n.startswith("__")}, type)


def _slots(x: Any) -> _Places:
    return _attributes(x, lambda: slots_of(x), object)


def _cell(cell: CellType) -> _Places:
    def read() -> Named:
        try:
            return {"": cell.cell_contents}
        except ValueError:  # nothing is bound
            return {}

    def write(wanted: Named, gone: Named) -> None:
        if gone:
            del cell.cell_contents
        else:
            cell.cell_contents = wanted[""]

    return _Places(read, write)


def _cache(function: Any) -> _Places:
    """An `lru_cache` without an entry."""
    return _Places(
        lambda: {"entries": function} if function.cache_info().currsize else {},
        lambda wanted, gone: function.cache_clear(),
    )


def _any_moves(values: Iterable[Any]) -> bool:
    return any(_is_moving(kind) for kind in set(map(type, values)))


def _is_moving(kind: type) -> bool:
    return issubclass(kind, Iterator) and kind.__module__ in ("builtins", "itertools")


def _again(value: Any, memo: Named) -> Any:
    """An iterator of Python's own that is where this one is, which nobody moves then; others as they are."""
    if _is_moving(type(value)):
        with warnings.catch_warnings(), suppress(Exception):  # generators and what draws from them have one life
            warnings.simplefilter("ignore", DeprecationWarning)
            return copy.deepcopy(value, memo)
    return value


class _Items:
    """Those of a container that knows no names."""

    def __init__(self, x: Any) -> None:
        self._x = x
        self._numbers = isinstance(x, bytearray | array)
        self._saved = x[:] if self._numbers else list(x)
        self._moves = not self._numbers and _any_moves(x)

    def restore(self, memo: Named | None) -> None:
        x, wanted = self._x, self._saved
        if self._numbers:
            if x != wanted:
                x[:] = wanted
            return
        if self._moves and memo is not None:
            wanted = [_again(v, memo) for v in wanted]
        if len(x) == len(wanted) and all(map(is_, x, wanted)):
            return
        if isinstance(x, list):
            list.__setitem__(x, slice(None), wanted)
        else:
            x.clear()
            (x.extend if isinstance(x, deque) else x.update)(wanted)

    def filled(self) -> list[Any]:
        """What was appended is no cache."""
        return []


def _state(x: Any) -> Back | None:
    """What puts a generator of random numbers back to where it is."""
    if isinstance(x, torch.Generator):
        return partial(_called, x.set_state, x.get_state())
    if isinstance(x, np.random.RandomState):
        return partial(_called, x.set_state, x.get_state())
    if isinstance(x, random.Random):
        return partial(_called, x.setstate, x.getstate())
    if isinstance(x, np.random.Generator | np.random.BitGenerator):
        source: Any = getattr(x, "bit_generator", x)
        return partial(setattr, source, "state", source.state)
    return None


def _called(function: Callable[[Any], Any], state: Any) -> None:
    function(state)


def _begins_within(address: int, x: np.ndarray) -> bool:
    first, last = byte_bounds(x)
    return first <= address < last
