"""What user code takes away is given back; what it has put in the place of something is told where RENDER fails."""

from __future__ import annotations

import builtins
import json
import math
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import torch

from render.interpreter.session import Session
from render.result.errors import RenderError
from render.result.footing import Footing, blamed, forget, replaced, steadied


@pytest.fixture(autouse=True)
def footing() -> Iterator[Footing]:
    forget()
    now = Footing()
    yield now
    now.restore()
    forget()


def test_what_nobody_can_use_is_given_back(footing: Footing) -> None:
    seed, dumps, length = torch.manual_seed, json.dumps, len
    finders = sys.meta_path[:]
    torch.manual_seed = json.dumps = builtins.len = None
    del sys.modules["json"], sys.exc_info, builtins.sorted
    sys.modules["torch"] = None
    sys.meta_path.clear()
    sys.path = None
    footing.mend()
    assert (torch.manual_seed, json.dumps, len) == (seed, dumps, length)
    assert sys.modules["json"] is json and sys.modules["torch"] is torch and sys.meta_path == finders
    assert sys.path and sys.exc_info and sorted("ba") == ["a", "b"]


def test_what_is_only_replaced_stays_until_the_end(footing: Footing) -> None:
    plain, mine = time.monotonic, lambda: 0.0
    time.monotonic = mine
    footing.mend()
    assert time.monotonic is mine and replaced() == "time.monotonic"
    footing.restore()
    assert time.monotonic is plain


def test_the_scope_gives_back_the_users_own(footing: Footing) -> None:
    torch.manual_seed, builtins.abs = None, None
    np.seterr(all="raise")
    with footing.mended():
        assert callable(torch.manual_seed) and abs(-1) == 1 and np.geterr()["over"] == "warn"
    assert torch.manual_seed is None and builtins.abs is None and np.geterr()["over"] == "raise"


def test_behind_a_call_of_the_user_numpy_takes_overflow_as_before(footing: Footing) -> None:
    with np.errstate(all="ignore"):
        with steadied():
            np.seterr(all="raise")
        assert np.geterr()["over"] == "ignore"


def test_names_that_libraries_change_themselves_are_none_of_the_users(
    footing: Footing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json, "_default_encoder", None)  # what the footing leaves alone, the test gives back
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    footing.mend()
    assert replaced() == ""


def test_what_torch_and_we_put_there_is_not_the_users(footing: Footing, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, wrapped = partial(footing.mend), torch.manual_seed

    def manual_seed(seed: int) -> torch.Generator:
        return wrapped(seed)

    monkeypatch.setattr(torch, "tensor", ours)
    manual_seed.__module__ = "torch.random"
    monkeypatch.setattr(torch, "manual_seed", manual_seed)
    footing.mend()
    assert replaced() == ""


def test_who_replaced_something_is_told_in_place_of_a_failure(footing: Footing) -> None:
    failure = TypeError("no")
    footing.mend()
    assert blamed(failure) is failure
    time.perf_counter = lambda: 1 / 0
    footing.mend()
    told = blamed(failure)
    assert isinstance(told, RenderError) and told.code == "RND908" and "time.perf_counter" in told.message
    assert blamed(told) is told


def test_what_render_has_put_there_is_none_of_the_users(footing: Footing) -> None:
    with Session("any"):
        assert type(math.acosh).__module__.startswith("render.")  # it keeps bounds
        footing.mend()
    assert replaced() == ""
