"""What was computed once is handed out again, unless it asked for a device that is now another."""

from __future__ import annotations

from render.entry.memo import Memo, asks_now
from render.interpreter.device import current, described


def test_what_asks_for_the_device_is_kept_for_that_device() -> None:
    memo, made = Memo(), []

    def plain() -> int:
        made.append("plain")
        return len(made)

    def asking() -> str:
        made.append("asking")
        return str(current().ask("arch").arch)

    for device, arch in (("sm_80", "sm_80"), ("sm_90", "sm_90"), ("sm_80", "sm_80")):
        with described(device):
            assert memo("p", plain) == 1
            assert memo("a", asking) == arch
            assert "arch" in asks_now(), "what is handed out asked once, and that counts for this verdict, too"
    assert made == ["plain", "asking", "asking"]
