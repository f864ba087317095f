"""Tensors from files: every kind that is offered, dtypes that numpy lacks, and nothing that runs code."""

from __future__ import annotations

import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from render.entry.tensors import _tensor, load
from render.result.errors import RenderError

X = torch.tensor([1.5, -2.0, 0.25])


def test_every_kind(tmp_path: Path) -> None:
    save_file({"x": X.bfloat16()}, tmp_path / "a.safetensors")
    np.savez(tmp_path / "a.npz", x=X.numpy(), half=X.half().numpy())
    np.save(tmp_path / "a.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    torch.save([X], tmp_path / "a.pt")
    assert torch.equal(load(tmp_path / "a.safetensors")["x"], X.bfloat16())
    assert torch.equal(load(tmp_path / "a.npz")["half"], X.half())
    assert load(tmp_path / "a.npy").tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert torch.equal(load(tmp_path / "a.pt")[0], X)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_dtypes_that_numpy_lacks_keep_their_bits(name: str) -> None:
    found = _tensor(X.numpy().astype(getattr(ml_dtypes, name)))
    assert found.dtype == getattr(torch, name) and torch.equal(found.float(), X)


def test_numbers_are_not_read_in_another_order_of_bytes() -> None:
    assert _tensor(np.array([1j, 2.0])).tolist() == [1j, 2.0]
    with pytest.raises(ValueError, match="byte order"):
        _tensor(X.numpy().astype(">f4"))
    with pytest.raises(ValueError, match="no counterpart"):
        _tensor(X.numpy().astype(ml_dtypes.float8_e3m4))


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("run",)


@pytest.mark.parametrize("kind", [".pt", ".npy"])
def test_code_in_a_file_does_not_run(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"bad{kind}"
    if kind == ".pt":
        file.write_bytes(pickle.dumps(Harmful()))
    else:
        np.save(file, np.array([Harmful()], object), allow_pickle=True)
    with pytest.raises(RenderError, match="cannot be read") as caught:
        load(file)
    assert caught.value.code == "RND901" and "run" not in capsys.readouterr().out


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1")
    for name, said in (("none.pt", "does not exist"), ("a.txt", "cannot tell what .txt holds")):
        with pytest.raises(RenderError, match=said):
            load(tmp_path / name)
