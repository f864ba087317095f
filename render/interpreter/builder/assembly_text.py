"""Straight-line PTX as Triton's inline assembly has it: registers, predicates, guards, one instruction after the other.

A register that is written under a guard holds what it held before where the guard is false; what nothing has written
there must not be read. Literals are rounded to nearest (seen in what ptxas makes of them). Source: PTX ISA 8 and 9,
predicated execution, comparison and selection instructions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import triton.language as tl

from render.interpreter.handle import Handle

_STATEMENT = re.compile(r"(?:@(!?)([A-Za-z_]\w*)\s+)?([a-z][a-z0-9_.]*)\s+([^{}]+)")
_DECLARED = re.compile(r"\.reg\s+\.\w+\s+\w+(<\d+>)?(\s*,\s*\w+(<\d+>)?)*")
_NUMBER = re.compile(r"-?\d+\.\d*(?:[eE][-+]?\d+)?")
_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})")
_ORDERS = {"lt": "OLT", "le": "OLE", "gt": "OGT", "ge": "OGE", "eq": "OEQ", "neu": "UNE"}
Guard = tuple[int, bool]


class Held(NamedTuple):
    """What a register holds, and the guards under which it was written; None: everywhere."""

    handle: Handle
    under: frozenset[Guard] | None = None


class Straight:
    """One run of such text; `refuse` raises with the reason, `compute` runs an instruction on handles."""

    def __init__(
        self, builder: Any, operands: Sequence[Handle], refuse: Callable[[str], NoReturn],
        compute: Callable[[str, list[Handle]], Handle], types: Mapping[str, Sequence[Any]], results: int = 1,
    ) -> None:  # fmt: skip
        """`types`: of the operands of an instruction with a rule. `results`: registers that the text writes."""
        self.builder, self.refuse, self.compute, self.types = builder, refuse, compute, types
        self.results = [f"${i}" for i in range(results)]
        self.held = {f"${i + results}": Held(h) for i, h in enumerate(operands)}
        self.shape = operands[0].shape if operands else ()
        self.predicates: dict[str, tuple[int, Handle]] = {}

    def run(self, text: str) -> list[Handle]:
        for statement in filter(None, (part.strip(" \t\n{}") for part in text.split(";"))):
            if not _DECLARED.fullmatch(statement):
                self._step(statement)
        return [self._result(name) for name in self.results]

    def _result(self, name: str) -> Handle:
        found = self.held.get(name)
        if found is None or found.under is not None:
            self.refuse(f"it does not write {name} everywhere")
        return found.handle

    def _step(self, statement: str) -> None:
        found = _STATEMENT.fullmatch(statement)
        if found is None:
            self.refuse(f"{statement.split()[0]} has no rule: it is no instruction with operands")
        negated, predicate, name, rest = found.groups()
        guard = self._guard(predicate, not negated) if predicate else None
        to, *given = (x.strip() for x in rest.split(","))
        if name.startswith("setp."):
            self._compare(name, to, given, guard)
        elif name in ("mov.f32", "mov.b32") and len(given) == 1:
            self._write(to, self._read(given[0], None, guard), guard)
        elif name in ("selp.f32", "selp.b32") and len(given) == 3:
            which = (
                self.predicates[given[2]][1]
                if given[2] in self.predicates
                else self.refuse(f"{given[2]} is no predicate")
            )
            x, y = (self._read(g, tl.float32, guard) for g in given[:2])
            self._write(to, self.builder.create_select(which, x, y), guard)
        else:
            kinds = self.types.get(name.replace(".ftz", ""))
            read = [self._read(g, kinds[i] if kinds and i < len(kinds) else None, guard) for i, g in enumerate(given)]
            self._write(to, self.compute(name, read), guard)

    def _guard(self, predicate: str, sense: bool) -> Guard:
        if predicate not in self.predicates:
            self.refuse(f"nothing has written {predicate}")
        return self.predicates[predicate][0], sense

    def _compare(self, name: str, to: str, given: list[str], guard: Guard | None) -> None:
        parts = name.replace(".ftz", "").split(".")
        if guard is not None or len(given) != 2 or len(parts) != 3 or parts[1] not in _ORDERS or parts[2] != "f32":
            self.refuse(
                f"{name} has no rule: of setp there are {', '.join(f'setp.{o}.f32' for o in _ORDERS)}, unguarded"
            )
        if ".ftz" in name:
            self.refuse(f"{name} has no rule: with flushed subnormals")
        x, y = (self._read(g, tl.float32, None) for g in given)
        self.predicates[to] = len(self.predicates) + 1, getattr(self.builder, f"create_fcmp{_ORDERS[parts[1]]}")(x, y)

    def _read(self, name: str, kind: Any, guard: Guard | None) -> Handle:
        value = self._literal(name)
        if value is not None:
            if kind not in (None, tl.float32):
                self.refuse(f"it takes {kind}, {name} is fp32")
            made = self.builder.get_fp32(value)
            if self.shape:
                made = self.builder.create_splat(tl.block_type(tl.float32, list(self.shape)), made)
            literal: Handle = made
            return literal
        held = self.held.get(name)
        if held is None or (held.under is not None and guard not in held.under):
            self.refuse(f"nothing has written {name} where it is read")
        if kind is not None and held.handle.dtype.scalar != kind:
            self.refuse(f"it takes {kind}, {name} is {held.handle.dtype.scalar}")
        return held.handle

    @staticmethod
    def _literal(name: str) -> float | None:
        if bits := _BITS.fullmatch(name):
            return float(struct.unpack(">f", bytes.fromhex(bits[1]))[0])
        return float(struct.unpack("f", struct.pack("f", float(name)))[0]) if _NUMBER.fullmatch(name) else None

    def _write(self, name: str, result: Handle, guard: Guard | None) -> None:
        old = self.held.get(name)
        if name.startswith("$") and name not in self.results:
            self.refuse(f"it writes the operand {name}")
        if guard is None:
            self.held[name] = Held(result)
            return
        if old is None or old.under == frozenset([guard]):
            self.held[name] = Held(result, frozenset([guard]))
            return
        which = next(h for serial, h in self.predicates.values() if serial == guard[0])
        x, y = (result, old.handle) if guard[1] else (old.handle, result)
        under = None if old.under is None else old.under | {guard}
        whole = under is not None and (guard[0], not guard[1]) in under
        self.held[name] = Held(self.builder.create_select(which, x, y), None if whole else under)
