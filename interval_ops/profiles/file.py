"""Reads `profiles/*.toml`: inheritance, exact numbers, validation. `profile.py` is the interface."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from interval_ops.formats.model import FORMATS
from interval_ops.profiles import facts
from interval_ops.profiles.profile import DotModel, FnError, OlderCast, Profile, RefusedCast

Table = dict[str, Any]

_TABLES = ("sources", "lowering", "functions", "dots", "refused", "device")
_TOP = {"name", "title", "confidence", "inherit", "aliases", "cast", "library", *_TABLES}
_LOWERING = {"exp_via_exp2", "atomic_flush_fp32", "default_input_precision", "source"}
_OPTIONAL = {"tree_since"}
_CAST = {"overflow", "via", "older", "refused"}
_REFUSED = {"casts", "reason", "since"}
_OLDER = {"below", "via", "ties", "overflow", "floor", "until"}
_FUNCTION = {"ulp", "r", "a", "ftz", "huge", "breaks", "until", "beyond", "source"}
_DOT_NUMBERS = ("rho", "eps", "extra", "floor", "growth")
_DOT = {f for f in DotModel.__dataclass_fields__ if f != "emin"} | {"operand"}
_FACTOR = re.compile(r"(?:(?P<plain>\d+(?:\.\d*)?(?:e-?\d+)?)|2\^(?P<power>-?\d+(?:\.\d+)?))\Z")
_VIA = re.compile(r"[a-z0-9]+->[a-z0-9]+\Z")
_CASTS = re.compile(r"(?P<src>\*|\w+)->(?P<dst>\*|\w+)(?: (?P<mode>rtne|rtz))?\Z")
_FLOATS = ("fp64", "fp32", "fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16", "fp8e4b15")
"""Formats that a kernel converts between."""


class ProfileError(ValueError):
    """A profile file is wrong; the message names the file and the key."""


def _factor(text: str) -> Fraction:
    match = _FACTOR.match(text.strip())
    if match is None:
        raise ValueError(f"not a number or a power 2^n: {text.strip()!r}")
    power = match["power"]
    if power is None:
        return Fraction(match["plain"])
    if "." not in power:
        return Fraction(2) ** int(power)
    # 2^-22.9 is irrational; libm's pow is within 1 ulp, two steps up are an upper bound.
    return Fraction(math.nextafter(math.nextafter(2.0 ** float(power), math.inf), math.inf))


def number(value: str | float) -> float:
    """Value of `"2.5*2^-23"` or `"17*2^-13 + 2^-13"`, evaluated exactly and rounded up."""
    terms = str(value).split(" + ")
    exact = sum((math.prod(map(_factor, term.split("*")), start=Fraction(1)) for term in terms), Fraction(0))
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def _keys(found: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(found) - allowed)
    if unknown:
        raise ProfileError(f"{where}: unknown key {', '.join(unknown)}; known: {', '.join(sorted(allowed))}")


def _source(entry: Mapping[str, Any], sources: Mapping[str, str], where: str) -> str:
    key = entry.get("source")
    if not isinstance(key, str) or key not in sources:
        raise ProfileError(f"{where}: source {key!r} is not in [sources]; known: {', '.join(sorted(sources))}")
    return sources[key]


def _function(name: str, entry: Table, sources: Mapping[str, str], where: str) -> FnError:
    """`ulp = k` is a documented k ulp from the correctly rounded value: r = (k + 1/2) ulp; else r and a as given."""
    _keys(entry, _FUNCTION, where)
    source, ftz = _source(entry, sources, where), bool(entry.get("ftz", False))
    if ("ulp" in entry) == ("r" in entry) or ("ulp" in entry and "a" in entry):
        raise ProfileError(f"{where}: give either ulp, or r and a")
    if "beyond" in entry and "until" not in entry:
        raise ProfileError(f"{where}: beyond belongs to until")
    huge, until = (number(entry[key]) if key in entry else math.inf for key in ("huge", "until"))
    beyond = number(entry["beyond"]) if "beyond" in entry else math.inf if "until" in entry else 0.0
    more = (ftz, source, huge, bool(entry.get("breaks", False)), until, beyond)
    if "r" in entry:
        return FnError(number(entry["r"]), number(entry.get("a", 0)), *more)
    spacing, tiny = ("2^-52", "2^-1074") if name.endswith("@fp64") else ("2^-23", "2^-149")
    half = f"{entry['ulp'] + 0.5}"
    return FnError(number(f"{half}*{spacing}"), number(f"{half}*{tiny}"), *more)


def _dot(entry: Table, sources: Mapping[str, str], where: str) -> DotModel:
    _keys(entry, _DOT, where)
    missing = {"block", "rho"} - set(entry)
    if missing:
        raise ProfileError(f"{where}: missing {', '.join(sorted(missing))}")
    values: Table = {"fraction": 0, **entry, "source": _source(entry, sources, where)}
    operand = values.pop("operand", "fp32")
    if operand not in FORMATS:
        raise ProfileError(f"{where}: operand {operand!r} is no format; known: {', '.join(FORMATS)}")
    if values.get("truncate", "") not in ("", "tf32", "bf16"):
        raise ProfileError(f"{where}: truncate must be empty, 'tf32' or 'bf16'")
    values.update({key: number(values[key]) for key in _DOT_NUMBERS if key in values})
    return DotModel(emin=FORMATS[operand].emin, **values)


def _casts(cast: Table, sources: Mapping[str, str], where: str) -> tuple[Table, Table]:
    _keys(cast, _CAST, f"{where} [cast]")
    overflow, via = dict(cast.get("overflow", {})), dict(cast.get("via", {}))
    for label, table in (("overflow", overflow), ("via", via)):
        if table:
            _source(table, sources, f"{where} [cast.{label}]")
            del table["source"]
    for fmt, mode in overflow.items():
        if fmt not in FORMATS or mode not in ("inf", "nan", "saturate", "either"):
            raise ProfileError(f"{where} [cast.overflow]: {fmt} = {mode!r} is not format = inf|nan|saturate|either")
    via = {pair: middle for pair, middle in via.items() if middle}  # "" takes an inherited entry away
    for pair, middle in via.items():
        if not _VIA.match(pair) or middle.removesuffix("rz") not in FORMATS:
            raise ProfileError(f"{where} [cast.via]: {pair!r} = {middle!r} is not 'src->dst' = format or formatrz")
    return overflow, via


def _older(cast: Table, sources: Mapping[str, str], where: str) -> dict[str, OlderCast]:
    """Conversions of earlier versions by pair; an empty table takes an inherited one away."""
    found = {pair: entry for pair, entry in cast.get("older", {}).items() if entry}
    if not set(found) - {"source"}:
        return {}
    source = _source(found, sources, f"{where} [cast.older]")
    del found["source"]
    made = {}
    for pair, entry in found.items():
        place = f"{where} [cast.older] {pair}"
        _keys(entry, _OLDER, place)
        below, ties, overflow = (
            _version(entry.get("below", ""), where),
            entry.get("ties", ""),
            entry.get("overflow", "inf"),
        )
        if not _VIA.match(pair) or below is None or ties not in ("", "away"):
            raise ProfileError(f'{place}: give a pair \'src->dst\', below = "3.9", and ties = "away" or none')
        if overflow not in ("inf", "nan", "saturate", "either"):
            raise ProfileError(f"{place}: overflow = {overflow!r} is not inf|nan|saturate|either")
        floor, until = number(entry.get("floor", 0)), number(entry.get("until", 0))
        made[pair] = OlderCast(below, entry.get("via", ""), bool(ties), overflow, floor, until, source)
    return made


def _refused_casts(cast: Table, where: str) -> dict[str, tuple[RefusedCast, ...]]:
    """By "src->dst mode": [cast.refused] with its wildcards spelt out; an empty entry takes an inherited one away."""
    made: dict[str, tuple[RefusedCast, ...]] = {}
    for label, entry in cast.get("refused", {}).items():
        place = f"{where} [cast.refused.{label}]"
        _keys(entry, _REFUSED, place)
        if not entry:
            continue
        if not entry.get("casts") or not entry.get("reason"):
            raise ProfileError(f"{place}: give casts, a list of 'src->dst', and the reason")
        refused = RefusedCast(entry["reason"], _version(entry.get("since", ""), where) or (0, 0))
        for pair in {pair for pattern in entry["casts"] for pair in _spelt_out(pattern, place)}:
            made[pair] = (*made.get(pair, ()), refused)
    return made


def _spelt_out(pattern: str, place: str) -> list[str]:
    """ "*" stands for every format, "fp8" for every one of 8 bits; both rounding modes unless one is named."""
    found = _CASTS.match(pattern)
    sides = [_side(found[name]) for name in ("src", "dst")] if found else []
    if found is None or not all(sides):
        raise ProfileError(f"{place}: {pattern!r} is not 'src->dst' or 'src->dst rtz'; formats: {', '.join(_FLOATS)}")
    modes = (found["mode"],) if found["mode"] else ("rtne", "rtz")
    return [f"{src}->{dst} {mode}" for src in sides[0] for dst in sides[1] for mode in modes]


def _side(name: str) -> list[str]:
    return [fmt for fmt in _FLOATS if name in ("*", fmt) or (name == "fp8" and FORMATS[fmt].bits == 8)]


def _merge(base: Table, top: Table) -> Table:
    """`top` over `base`, table by table; single functions and dots are replaced as a whole."""
    merged = {**base, **top}
    for key in _TABLES:
        merged[key] = {**base.get(key, {}), **top.get(key, {})}
    merged["cast"] = {
        part: {**base.get("cast", {}).get(part, {}), **top.get("cast", {}).get(part, {})} for part in _CAST
    }
    return merged


def parse(text: str, where: str, parent: Callable[[str], Table]) -> Table:
    """The raw tables of one file with its inheritance resolved; `parent` returns the tables of another profile."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{where}: {error}") from None
    _keys(raw, _TOP, where)
    if "inherit" not in raw:
        return raw
    return _merge(parent(raw["inherit"]), {key: value for key, value in raw.items() if key != "inherit"})


def build(raw: Table, where: str) -> Profile:
    """A validated profile from resolved tables."""
    sources, lowering = raw.get("sources", {}), raw.get("lowering", {})
    _keys(lowering, _LOWERING | _OPTIONAL, f"{where} [lowering]")
    missing = [k for k in ("name", "title", "confidence") if k not in raw] + sorted(_LOWERING - set(lowering))
    if missing:
        raise ProfileError(f"{where}: missing {', '.join(missing)}")
    _source(lowering, sources, f"{where} [lowering]")
    overflow, via = _casts(raw.get("cast", {}), sources, where)
    refused = {key: reason for key, reason in raw.get("refused", {}).items() if reason}  # "" as in [cast.via]
    functions = {
        name: _function(name, entry, sources, f"{where} [functions.{name}]")
        for name, entry in raw.get("functions", {}).items()
        if name not in refused
    }
    dots = {
        name: _dot(entry, sources, f"{where} [dots.{name}]")
        for name, entry in raw.get("dots", {}).items()
        if f"dot {name}" not in refused
    }
    return Profile(
        name=raw["name"],
        title=raw["title"],
        confidence=raw["confidence"],
        functions=MappingProxyType(functions),
        dots=MappingProxyType(dots),
        exp_via_exp2=lowering["exp_via_exp2"],
        cast_overflow=MappingProxyType(overflow),
        cast_double_rounding=MappingProxyType(via),
        atomic_flush_fp32=lowering["atomic_flush_fp32"],
        default_input_precision=lowering["default_input_precision"],
        aliases=tuple(raw.get("aliases", ())),
        refused=MappingProxyType(refused),
        older_casts=MappingProxyType(_older(raw.get("cast", {}), sources, where)),
        refused_casts=MappingProxyType(_refused_casts(raw.get("cast", {}), where)),
        tree_since=_version(lowering.get("tree_since", ""), where),
        device=_device(raw, sources, where),
        library=bool(raw.get("library", False)),
    )


def _device(raw: Table, sources: Mapping[str, str], where: str) -> facts.DeviceFacts | None:
    try:
        return facts.read(raw.get("device", {}), sources, where)
    except ValueError as error:
        raise ProfileError(str(error)) from None


def _version(text: str, where: str) -> tuple[int, int] | None:
    """(3, 8) of "3.8"; None of nothing."""
    if not text:
        return None
    if not re.fullmatch(r"\d+\.\d+", text):
        raise ProfileError(f"{where} [lowering]: {text!r} is not a version such as 3.8")
    major, minor = map(int, text.split("."))
    return major, minor


def _read(name: str) -> str:
    return resources.files("interval_ops").joinpath("profiles", f"{name}.toml").read_text(encoding="utf-8")


def _tables(name: str) -> Table:
    tables = parse(_read(name), f"{name}.toml", _tables)
    # Aliases name one device, not its descendants.
    return {key: value for key, value in tables.items() if key != "aliases"}


@cache
def index() -> Mapping[str, str]:
    """Every name and alias -> profile name."""
    known: dict[str, str] = {}
    for entry in resources.files("interval_ops").joinpath("profiles").iterdir():
        if entry.name.endswith(".toml"):
            name = entry.name.removesuffix(".toml")
            aliases = tomllib.loads(entry.read_text(encoding="utf-8")).get("aliases", [])
            known.update(dict.fromkeys((name, *aliases), name))
    return MappingProxyType(known)


@cache
def load(name: str) -> Profile:
    raw = parse(_read(name), f"{name}.toml", _tables)
    if raw.get("name") != name:
        raise ProfileError(f"{name}.toml: name is {raw.get('name')!r}, the file is called {name!r}")
    return build(raw, f"{name}.toml")
