"""Examples that hypothesis makes up for one test: hundreds of comparisons in one line, of which two are judged.

The first one, as any comparison, and the last one: where the test fails, hypothesis ends with the smallest example that
does. What lies between them are its steps on the way there.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Generic, TypeVar

T = TypeVar("T")
_HOME = "hypothesis.core"
NOTE = "of the examples that hypothesis makes, the first and the last one of each line are judged"


class Examples(Generic[T]):
    """What is asked in the lines of the test that runs now."""

    def __init__(self) -> None:
        self._test: FrameType | None = None
        self._last: dict[tuple[str, int], T | None] = {}

    def waits(self, frame: FrameType | None, at: tuple[str, int], question: T) -> bool:
        """Whether the question waits for the end of the test, in place of the one before in its line."""
        test = _test_of(frame)
        if test is None:
            return False
        first = at not in self._last
        self._test, self._last[at] = test, None if first else question
        return not first

    def over(self, frame: FrameType | None = None) -> Iterator[T]:
        """The last question of each line, once another test runs, or none does any more."""
        if self._test is not None and _test_of(frame) is not self._test:
            last, self._last, self._test = self._last, {}, None
            yield from (question for question in last.values() if question is not None)


def _test_of(frame: FrameType | None) -> FrameType | None:
    """The call of the test for which hypothesis makes examples; None outside of one."""
    found = None
    while frame is not None:
        found = frame if frame.f_globals.get("__name__") == _HOME else found
        frame = frame.f_back
    return found
