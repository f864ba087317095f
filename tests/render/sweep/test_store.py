"""Finished units: kept across openings, written once, and only a failure gives way."""

from __future__ import annotations

from pathlib import Path

from render.sweep.store import KeptUnit, SweepStore


def test_a_result_stays_and_a_failure_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "sweep.db"
    store = SweepStore(path)
    store.put(KeptUnit("a", {"n": 1}, [], "it failed", 1))
    assert store.known(["a"]) == {}
    store.put(KeptUnit("a", {"n": 1}, [{"x": 1.5}], "", 2))
    store.put(KeptUnit("a", {"n": 1}, [{"x": 9}], "", 3))
    store.put(KeptUnit("a", {"n": 1}, [], "later failure", 4))
    store.close()
    again = SweepStore(path)
    assert again.known(["a", "b"]) == {"a": KeptUnit("a", {"n": 1}, [{"x": 1.5}], "", 2)}
    again.forget(["a"])
    assert again.known(["a"]) == {}
    again.close()


def test_two_writers_at_one_file(tmp_path: Path) -> None:
    one, two = SweepStore(tmp_path / "s.db"), SweepStore(tmp_path / "s.db")
    one.put(KeptUnit("a", {}, [{"by": "one"}]))
    two.put(KeptUnit("b", {}, [{"by": "two"}]))
    assert set(one.known(["a", "b"])) == set(two.known(["a", "b"])) == {"a", "b"}
    one.close()
    two.close()
