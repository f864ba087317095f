"""Scopes of `render.allocator` nest, and the outermost one gives memory back whatever happens inside."""

import pytest

from render import allocator


def test_only_the_outermost_scope_configures(monkeypatch):
    calls = []
    monkeypatch.setattr(allocator, "_configure", lambda values, trim=False: calls.append((values, trim)))
    with allocator.large_blocks_kept(), allocator.large_blocks_kept():
        assert len(calls) == 1
    assert [trim for _, trim in calls] == [False, True]


def test_given_back_after_an_error(monkeypatch):
    calls = []
    monkeypatch.setattr(allocator, "_configure", lambda values, trim=False: calls.append(trim))
    with pytest.raises(ValueError, match="inside"), allocator.large_blocks_kept():
        raise ValueError("inside")
    assert calls == [False, True]
