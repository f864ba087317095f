"""A plan draws one choice per coordinate: the same for a seed, all over many seeds, and what is fixed stays."""

from __future__ import annotations

from render.lab.adversary.plan import AttackPlan


def test_choices_follow_the_seed_and_the_name() -> None:
    options = ("a", "b", "c")
    assert AttackPlan(5).pick("x", options) == AttackPlan(5).pick("x", options)
    assert {AttackPlan(seed).pick("x", options) for seed in range(40)} == set(options)
    pairs = {(AttackPlan(s).pick("x", options), AttackPlan(s).pick("y", options)) for s in range(200)}
    assert len(pairs) == 9, "coordinates are drawn apart"


def test_one_coordinate_is_changed_and_the_rest_is_kept() -> None:
    plan, options = AttackPlan(1), ("a", "b", "c")
    before = {name: plan.pick(name, options) for name in ("x", "y", "z")}
    assert plan.seen == dict.fromkeys(before, options)
    other = next(o for o in options if o != before["y"])
    changed = plan.changed("y", other)
    assert {name: changed.pick(name, options) for name in before} == {**before, "y": other}
    assert plan.changed("y", "no option").pick("y", options) == before["y"]
    assert AttackPlan(2).pick("x", ["only"]) == "only"
