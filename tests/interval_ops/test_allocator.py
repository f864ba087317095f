"""Scopes of `interval_ops.allocator` nest, and the outermost one restores the allocator whatever happens inside."""

import pytest

from interval_ops import allocator

AFTER = (allocator._SOON, allocator.RETAINED, allocator._SOON)


@pytest.fixture
def calls(monkeypatch):
    found = []
    monkeypatch.setattr(allocator, "_configure", lambda values: found.append(values))
    monkeypatch.setattr(allocator, "trim", lambda: found.append("trim"))
    monkeypatch.setattr(allocator, "_used", lambda: 0)
    monkeypatch.setattr(allocator, "resident", lambda: allocator.RETAINED + 1)
    return found


def test_only_the_outermost_scope_configures(calls):
    with allocator.large_blocks_kept():
        before = list(calls)
        with allocator.large_blocks_kept():
            pass
        assert calls == before
        assert before[-1] == allocator._KEEP
    assert calls == [*before, AFTER, "trim"]


def test_given_back_after_an_error(calls):
    with pytest.raises(ValueError, match="inside"), allocator.large_blocks_kept():
        raise ValueError("inside")
    assert calls[-2:] == [AFTER, "trim"]


def test_little_memory_stays_for_the_next_scope(calls, monkeypatch):
    monkeypatch.setattr(allocator, "_used", lambda: 1)
    with allocator.large_blocks_kept():
        pass
    assert calls[-1] == AFTER


def test_a_process_that_has_little_is_not_counted(calls, monkeypatch):
    monkeypatch.setattr(allocator, "resident", lambda: allocator.RETAINED)
    monkeypatch.setattr(allocator, "_used", lambda: pytest.fail("counted piece by piece"))
    allocator.spare()
    assert calls == []


def test_what_the_allocator_holds_is_known():
    assert 0 < allocator._used() < allocator.resident() or not allocator._used()
    assert 0 < allocator.resident() <= 1 << 62


def test_blocks_that_are_hardly_touched_are_mapped_only_inside_the_outer_scope(calls):
    with allocator.large_blocks_mapped():
        assert calls == []
    with allocator.large_blocks_kept():
        with allocator.large_blocks_mapped():
            assert calls[-1] == allocator._SPARSE
        assert calls[-1] == allocator._KEEP


def test_a_scope_says_what_stays_for_the_next_one(calls, monkeypatch):
    free = 2 * allocator.RETAINED
    monkeypatch.setattr(allocator, "resident", lambda: free)
    with allocator.large_blocks_kept(free):
        pass
    assert calls[-1] == (allocator._SOON, free, allocator._SOON)
    with allocator.large_blocks_kept(free - 1):
        pass
    assert calls[-1] == "trim"


def test_a_large_step_gives_back_on_both_sides_also_after_an_error(calls):
    with allocator.little_kept(False):
        pass
    assert not calls
    with pytest.raises(ValueError, match=r"inside, after \['trim'\]"), allocator.little_kept(True):
        raise ValueError(f"inside, after {calls}")
    assert calls == ["trim", "trim"]
