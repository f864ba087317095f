"""What a scope patches is back afterwards, whatever happens inside; lifted, it is back for a while."""

from __future__ import annotations

from types import ModuleType

import pytest

from render.interpreter.scope import Names, PatchScope
from render.interpreter.session import Session, innermost
from render.interpreter.tuning import Tuned


class Owner:
    kept, count = "class", 1

    def method(self) -> str:
        return "plain"


class Child(Owner):
    pass


def interrupted() -> None:
    with PatchScope() as scope:
        scope.set(Owner, "kept", "first")
        scope.set(Owner, "kept", "second")
        scope.set(Child, "kept", "own")
        scope.set(Child, "new", 1)
        assert (Owner.kept, Child.kept, vars(Child)["new"]) == ("second", "own", 1)
        raise KeyboardInterrupt


def test_everything_comes_back_in_reverse_order() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert Owner.kept == Child.kept == "class" and not hasattr(Child, "new")
    assert "kept" not in vars(Child), "an inherited attribute must not become one of its own"


def test_modules_and_code_of_functions() -> None:
    module = ModuleType("made")
    module.x = 1  # type: ignore[attr-defined]
    before = Owner.method.__code__
    with PatchScope() as scope:
        scope.update(module, {"x": 2, "y": 3})
        scope.set(Owner.method, "__code__", (lambda self: "patched").__code__)
        assert (vars(module)["x"], vars(module)["y"], Owner().method()) == (2, 3, "patched")
    assert vars(module)["x"] == 1 and "y" not in vars(module) and Owner.method.__code__ is before


def test_lifted_shows_the_plain_state_and_gives_the_patches_back() -> None:
    with PatchScope() as scope:
        scope.set(Owner, "count", 2)
        scope.set(Owner, "count", 3)
        with scope.lifted():
            assert Owner.count == 1
        assert Owner.count == 3
    assert Owner.count == 1


class Broken:
    """A tuner of the user's whose table cannot be read at the end."""

    @property
    def configs(self) -> list[object]:
        raise ValueError("no table")


def broken(session: Session) -> None:
    with session:
        session.tuned["broken"] = Tuned(Broken(), ("",))


def test_a_session_closes_whatever_a_tuner_does_at_its_end() -> None:
    from triton.runtime import jit

    before = jit.JITFunction.run
    with pytest.raises(ValueError, match="no table"):
        broken(Session(redirect=False))
    assert jit.JITFunction.run is before and innermost() is None


def test_names_that_are_put_in_place_again_and_again() -> None:
    module = ModuleType("made")
    vars(module).update(x=1, y=2)
    names = Names({"x": 10, "y": 20})

    def inside() -> tuple[object, ...]:
        with PatchScope() as scope:
            scope.update(module, names)
            scope.set(module, "x", 11)
            scope.set(module, "z", 3)
            with scope.lifted():
                assert vars(module).get("y") != 20 and "z" not in vars(module)
            return vars(module)["x"], vars(module)["y"], vars(module)["z"]

    for x in (1, 5):  # others may change it in between
        vars(module)["x"] = x
        for _ in range(2):
            assert inside() == (11, 20, 3)
            assert (vars(module)["x"], vars(module)["y"], "z" in vars(module)) == (x, 2, False)
    del module.y
    assert inside() == (11, 20, 3) and not hasattr(module, "y")
