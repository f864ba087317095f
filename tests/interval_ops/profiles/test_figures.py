"""Every figure of every profile, against what tests/profile_*.py has from the documents; nothing is left out.

A figure that is added needs a row there, with its source; one that is changed needs its document.
"""

from __future__ import annotations

import copy
import math
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import profile_functions
import profile_parts
import profile_units
import pytest

from interval_ops.profiles import file
from interval_ops.profiles.profile import Profile, load_profile, profile_names


def same(found: Any, stated: Any) -> bool:
    """Equal; numbers but for the last bits, which an exact sum rounds upwards."""
    if isinstance(found, float) and isinstance(stated, float | int):
        return math.isclose(found, stated, rel_tol=2.0**-40)
    return bool(found == stated)


def apart(found: Any, stated: Any, where: str) -> Iterator[str]:
    """Fields of two records that differ, their source aside."""
    for f in fields(stated):
        a, b = getattr(found, f.name), getattr(stated, f.name)
        if f.name != "source" and not same(a, b):
            yield f"{where}: {f.name} is {a}, the document gives {b}"


def tables(found: Any, stated: Any, where: str) -> Iterator[str]:
    for name in sorted(set(found) | set(stated)):
        if name not in found or name not in stated:
            yield f"{where} {name}: only in {'the profile' if name in found else 'the documents'}"
        else:
            yield from apart(found[name], stated[name], f"{where} {name}")


def differences(device: str, profile: Profile) -> Iterator[str]:
    yield from tables(profile.functions, profile_functions.functions(device), "function")
    yield from tables(profile.dots, profile_units.units(device), "dot")
    yield from tables(profile.older_casts, profile_parts.older(device), "older")
    refused = {pair: {entry.since for entry in entries} for pair, entries in profile.refused_casts.items()}
    for label, a, b in (
        ("overflow", dict(profile.cast_overflow), profile_parts.overflow(device)),
        ("via", dict(profile.cast_double_rounding), profile_parts.via(device)),
        ("refused", refused, profile_parts.refused(device)),
    ):
        yield from (f"{label} {key}: {a.get(key)}, {b.get(key)}" for key in {*a, *b} if a.get(key) != b.get(key))
    lowering = (profile.exp_via_exp2, profile.atomic_flush_fp32, profile.default_input_precision, profile.tree_since)
    if lowering != profile_parts.LOWERING[device]:
        yield f"lowering: {lowering}"
    if profile.library != (device in ("torch-cpu", "inductor-cpu", "cuda-eager")):
        yield "library"
    stated = profile_parts.facts(device)
    if (profile.device is None) != (stated is None):
        yield "device: only on one side"
    for key, value in (stated or {}).items():
        if getattr(profile.device, key) != value:
            yield f"device: {key} is {getattr(profile.device, key)}, the data sheet gives {value}"


@pytest.mark.parametrize("device", profile_names())
def test_every_figure_has_its_document(device: str) -> None:
    assert not list(differences(device, load_profile(device)))


def leaves(table: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    items = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in items:
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


PROSE = {"name", "title", "confidence", "inherit", "sources", "refused", "aliases"}


def changed(path: tuple[Any, ...], value: Any) -> Iterator[Any]:
    """Halved, doubled, off by one, flipped, another name."""
    if path[0] in PROSE or path[-1] in ("source", "reason"):
        return
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value * 2 or 2, *([value - 1] if value else []))
    elif value in ("inf", "nan", "saturate", "either"):
        yield from {"inf", "saturate", "either"} - {value}
    elif path[-1] == "overflow":
        yield "wrap" if value != "wrap" else "saturate"
    elif "->" in value:
        yield "fp32->fp16 rtz"
    else:
        yield from _changed_text(path, value)


def _changed_text(path: tuple[Any, ...], value: str) -> Iterator[str]:
    known = {
        "operand": ("fp16", "fp8e4nv"),
        "acc": ("fp16", "int32"),
        "truncate": ("bf16", "tf32"),
        "via": ("fp16", "bf16"),
        "ties": ("away", ""),
        **dict.fromkeys(("below", "since", "tree_since"), ("3.8", "3.7")),
        "default_input_precision": ("tf32", "ieee"),
    }
    section = "via" if path[:2] == ("cast", "via") else path[-1]
    if section in known:
        yield known[section][value == known[section][0]]
    elif path[0] == "device":
        yield value + "x"
    elif value == "0":
        yield "1"
    elif value:
        yield from (f"{factor}*{value}" for factor in ("0.5", "2"))


@pytest.mark.slow
@pytest.mark.parametrize("device", profile_names())
def test_no_figure_can_change_unseen(device: str) -> None:
    """Each leaf of the file in turn, halved, doubled, off by one or flipped: the comparison above says so."""
    raw = tomllib.loads((Path(file.__file__).parent / f"{device}.toml").read_text())
    parent: Callable[[str], Any] = file._tables
    unseen = []
    for path, value in leaves(raw):
        for now in changed(path, value):
            top = copy.deepcopy(raw)
            place: Any = top
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = now
            merged = file._merge(parent(top.pop("inherit")), top) if "inherit" in top else top
            try:
                found = next(differences(device, file.build(merged, device)), None)
            except file.ProfileError:
                continue
            if found is None:
                unseen.append(f"{path}: {value} -> {now}")
    assert not unseen
