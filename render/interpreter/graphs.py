"""CUDA graphs without a GPU: what is captured runs and is recorded, operations and launches; a replay runs it again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

_recordings: list[Recording] = []
_own: list[None] = []
"""Not empty while RENDER itself computes with tensors: that is no part of what is captured."""


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    _own.append(None)
    try:
        yield
    finally:
        _own.pop()


def launched(again: Callable[[], Any]) -> None:
    """A kernel was launched; a graph that is captured keeps how to launch it again."""
    if _recordings:
        _recordings[-1].steps.append(again)


class Recording(TorchDispatchMode):
    """Operations and launches in their order; results are written into the tensors of the capture."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        out = func(*args, **named)
        given = {t.untyped_storage().data_ptr() for t in _tensors((args, named))}
        made = [t for t in _tensors(out) if t.untyped_storage().data_ptr() not in given]
        if not _own and (made or func._schema.is_mutable):
            self.steps.append(lambda: _again(func, args, named, out, made))
        return out

    def __enter__(self) -> Any:
        _recordings.append(self)
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        _recordings.remove(self)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def _again(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, made: list[torch.Tensor]) -> None:
    with torch.no_grad():
        found = func(*args, **kwargs)
        for old, new in zip(_tensors(out), _tensors(found), strict=True):
            if any(old is t for t in made):
                old.copy_(new)


class Graph:
    """Stands for `torch.cuda.CUDAGraph`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recording: Recording | None = None

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        self._recording = Recording()
        self._recording.__enter__()

    def capture_end(self) -> None:
        assert self._recording is not None
        self._recording.__exit__(None, None, None)

    def replay(self) -> None:
        if self._recording is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        for step in self._recording.steps:
            step()

    def reset(self) -> None:
        self._recording = None

    def pool(self) -> tuple[int, int]:
        return (0, 0)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


class Capture:
    """Stands for `torch.cuda.graph`."""

    def __init__(self, cuda_graph: Graph, *args: Any, **kwargs: Any) -> None:
        self.graph = cuda_graph

    def __enter__(self) -> None:
        self.graph.capture_begin()

    def __exit__(self, *exc: object) -> None:
        self.graph.capture_end()
