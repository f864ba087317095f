"""Scopes of `render.allocator` nest, and the outermost one restores the allocator whatever happens inside."""

import pytest

from render import allocator


@pytest.fixture
def calls(monkeypatch):
    found = []
    monkeypatch.setattr(allocator, "_configure", lambda values: found.append(values))
    monkeypatch.setattr(allocator, "trim", lambda retained: found.append(retained))
    return found


def test_only_the_outermost_scope_configures(calls):
    with allocator.large_blocks_kept():
        before = list(calls)
        with allocator.large_blocks_kept():
            pass
        assert calls == before
        assert before[-1] == allocator._KEEP
    assert calls == [*before, allocator._AFTER, allocator._RETAINED]


def test_given_back_after_an_error(calls):
    with pytest.raises(ValueError, match="inside"), allocator.large_blocks_kept():
        raise ValueError("inside")
    assert calls[-2:] == [allocator._AFTER, allocator._RETAINED]
