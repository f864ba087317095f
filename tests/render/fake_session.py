"""A stand-in for the interpreter's session: the test's entry function says itself what its kernel would have done."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import torch

from interval_ops.profiles.profile import load_profile
from render.interpreter.choices import Choices
from render.interpreter.memory.records import Use
from render.result.errors import RenderError


class FakeSession:
    """`store` writes a tensor with a bound made of one half width per (cause, file, line)."""

    current: FakeSession

    def __init__(self, device="any", mute=frozenset(), **options):
        if "tracker" in options:
            raise RenderError("RND902", "the stand-in has no host operations to follow")
        self.mute = mute
        self.launches, self.findings, self.notes, self.arrays = [], [], [], []
        self.taints, self.causes, self.envelopes, self.undefined_sites = {}, set(), {}, set()
        self.profile = replace(load_profile("any"), title="a test device", confidence="")
        self.host_roundings, self.host_given, self.tuned, self.host_steps = {}, False, {}, 0
        self.open_sites, self.programs = set(), None
        self.memory = SimpleNamespace(
            use_of=lambda tensor: Use.STORED, placed=set(), choices=Choices(), find=lambda address: None
        )

    def with_numbers(self, inputs):
        return inputs

    def returned(self, place, value, tensor):
        pass

    def made_at(self, base):
        return None

    def forget(self):
        self.envelopes.clear()

    def __enter__(self):
        FakeSession.current = self
        return self

    def __exit__(self, *exc):
        pass

    def store(self, tensor, value, halves=None, lo=None, hi=None, taints=(), written=True):
        value = torch.as_tensor(value)
        tensor.copy_(value)
        reach = 0.0
        for cause, half in (halves or {}).items():
            self.causes.add(cause)
            if cause not in self.mute and cause[0] not in self.mute:
                reach = reach + np.asarray(half)
        centre = value.double().numpy()
        self.launches.append(SimpleNamespace(kernel="kernel", grid=(1, 1, 1), file="k.py", line=7))
        self.envelopes[tensor.data_ptr()] = SimpleNamespace(
            lo=centre - reach if lo is None else lo,
            hi=centre + reach if hi is None else hi,
            written=np.broadcast_to(written, centre.shape),
            kernel_written=True,
            taints=frozenset(taints),
        )

    def taint(self, ident, code, op="op", message="something has no rule", file="k.py", line=3):
        self.taints[ident] = SimpleNamespace(code=code, op=op, message=message, file=file, line=line, count=1)

    def find(self, code, kind="read", tensor="a", line=9, taint=None):
        self.findings.append(
            SimpleNamespace(code=code, message=f"{kind}s outside {tensor}", tensor=tensor, program=(0,), index=(1,),
                            file="k.py", line=line, count=5, kind=kind, taint=taint)
        )  # fmt: skip

    def envelope(self, tensor, take=False):
        return self.envelopes.get(tensor.data_ptr())
