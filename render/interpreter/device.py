"""The one description of the device that host code is told of, for torch and Triton alike.

A profile carries the facts (`[device]` in its file). `described` makes them current; scopes nest, the innermost counts.
What host code asked of it is remembered, because the answers choose the path that is judged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from interval_ops.profiles.facts import DeviceFacts
from interval_ops.profiles.profile import Profile, load_profile

DEFAULT = "any"


@dataclass
class Description:
    """Facts of one device, what host code asked of them (`capability`, `target`, ...), and notes for the verdict."""

    facts: DeviceFacts
    named: bool
    asked: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)

    def ask(self, what: str) -> DeviceFacts:
        self.asked.add(what)
        return self.facts

    @property
    def sentence(self) -> str | None:
        """Which path of the host was judged; None where it asked for nothing."""
        if not self.asked:
            return None
        facts = self.facts
        told = f"host code asked for the device's {', '.join(sorted(self.asked))}: told {facts.part} ({facts.arch})"
        return told if self.named else f"{told}; name another with --device"


def facts_of(profile: Profile) -> DeviceFacts:
    """A profile that is no GPU (`ieee`, `torch-cpu`) is described as the default one."""
    found = profile.device or load_profile(DEFAULT).device
    assert found is not None
    return found


_stack: list[Description] = []


def current() -> Description:
    return _stack[-1] if _stack else Description(facts_of(load_profile(DEFAULT)), named=False)


@contextlib.contextmanager
def described(profile: Profile | str | None) -> Iterator[Description]:
    """The device of a profile is what host code is told of; None keeps the current one, or the default."""
    if profile is None:
        found = current()
    else:
        profile = load_profile(profile) if isinstance(profile, str) else profile
        facts = facts_of(profile)
        same = bool(_stack) and _stack[-1].facts == facts
        found = _stack[-1] if same else Description(facts, named=profile.name != DEFAULT and profile.device is not None)
    _stack.append(found)
    try:
        yield found
    finally:
        _stack.pop()


@contextlib.contextmanager
def unasked() -> Iterator[None]:
    """What is asked inside is not remembered: no code of the user's asks."""
    found = current()
    before = set(found.asked)
    try:
        yield
    finally:
        found.asked = before


def target() -> Any:
    """The `GPUTarget` of the current device."""
    return target_of(current().facts)


def target_of(facts: DeviceFacts) -> Any:
    """The `GPUTarget` of a device."""
    from triton.backends.compiler import GPUTarget

    arch = int(facts.arch.removeprefix("sm_")) if facts.backend == "cuda" else facts.arch
    return GPUTarget(facts.backend, arch, facts.warp_size)  # type: ignore[arg-type]
