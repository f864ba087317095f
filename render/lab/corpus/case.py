"""One case of the corpus: the facts in its `case.toml`, and the file, inputs and reference that they name.

`datasets/issues/<id>/` holds an issue, `datasets/twins/<id>-<name>/` a variation of one whose verdict must differ or
must not. Nothing here reaches the judge except the file, its inputs, the profile, the declared precision of the
reference and the device output: a label is only ever compared with the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from render.result.errors import RenderError
from render.result.packaged import folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from render.entry.inputs import Inputs

NOT_FOUND = "RND902"
FOLDERS = ("issues", "twins", "network")
KERNELS = ("issues", "twins")
Label = Literal["Type-I", "Type-II", "Inconclusive"]
Side = Literal["inside", "outside", "none"]
Number = int | float


class ReferenceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The function in the file, and the precision at which the issue ran it (fp16 and fp64 name its dtype)."""

    precision: Literal["ieee", "tf32", "tf32-rna", "fp16", "fp64"]
    fn: str = "reference"

    @property
    def judged_as(self) -> str:
        """`ref_precision` of `render.classify`: a reference in another dtype takes no emulation."""
        return self.precision if self.precision.startswith("tf32") else "ieee"


class IssueTolerance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The comparison of the issue; `none` where the script only prints a difference."""

    source: Literal["issue", "allclose", "assert_close", "none"]
    atol: float | None = None
    rtol: float | None = None


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the device output comes from, and the profile under which the case is judged.

    none: there is none. model: computed by an emulation. fault: a defect injected to have the reported symptom.
    recorded: taken from hardware. `provenance` says on what evidence; `parameters` go to the model.
    """

    kind: Literal["none", "model", "fault", "recorded"]
    profile: str
    model: str = ""
    parameters: dict[str, Any] = {}
    provenance: str = ""


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer that RENDER must give: with the device output, and (`source_level`) without it.

    `reference` and `device` are the two axes: every element of y_ref, of y_dev inside the envelope. `unbounded` stands
    where a finding leaves no envelope to ask. The first of `codes` is the expected owner, the others are accepted.
    """

    label: Label
    codes: list[str]
    paper_rule: Label
    source_level: Label
    reference: Side | Literal["unbounded"] = "inside"
    device: Side | Literal["unbounded"] = "none"
    source_codes: list[str] = []


class NetworkFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a pair of models: which side is compiled, the compiler's switches, and what must be named."""

    compiled: Literal["", "target", "reference"] = ""
    switches: dict[str, Any] = {}
    first: str = ""
    operation: str = ""


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`case.toml` as it is written."""

    id: str
    title: str
    url: str
    state: Literal["open", "closed", "unknown"]
    operation: str
    entry: str
    seed: int
    shapes: dict[str, list[int]]
    dtypes: list[str]
    blocks: dict[str, int]
    data: str
    reference: ReferenceSpec
    tolerance: IssueTolerance
    label: Literal["Type-I", "Type-II"]
    root_cause: str
    evidence: str
    device: Device
    expected: Expected
    kind: Literal["kernel", "network"] = "kernel"
    network: NetworkFacts = NetworkFacts()
    kernel: str = "kernel.py"
    identical_inputs: bool = False
    twin_of: str = ""
    change: str = ""
    arguments: dict[str, Any] = {}
    small: dict[str, Any] = {}
    published: dict[str, Any] = {}
    notes: list[str] = []


@dataclass(frozen=True)
class CorpusCase:
    """A case on disk. `path` is its folder; `arguments` of the facts go to the file's `make_inputs`."""

    path: Path
    facts: Facts

    @property
    def id(self) -> str:
        return self.facts.id

    @property
    def is_twin(self) -> bool:
        return bool(self.facts.twin_of)

    @property
    def kernel_file(self) -> Path:
        """The file with the kernel; a twin that changes only the setting shares the issue's."""
        return (self.path / self.facts.kernel).resolve()

    @property
    def profile(self) -> str:
        return self.facts.device.profile

    def load(self) -> ModuleType:
        """The kernel's file as a module; nothing is launched."""
        from render.entry.target import load_module

        return load_module(self.kernel_file)

    def entry(self, module: ModuleType) -> Callable[..., Any]:
        """The function under test."""
        found: Callable[..., Any] = getattr(module, self.facts.entry)
        return found

    def reference(self, module: ModuleType) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(module, self.facts.reference.fn)
        return found

    def inputs(self, module: ModuleType, small: bool = False) -> Inputs:
        """The published inputs, drawn from the seed on the CPU generator; `small`: at the reduced size of the tests."""
        import torch

        from render.entry.execution import on_cpu
        from render.entry.inputs import from_mapping

        sizes = self.facts.arguments | (self.facts.small if small else {})
        with on_cpu():
            torch.manual_seed(self.facts.seed)
            return from_mapping(self.entry(module), module.make_inputs(**sizes))


def load_case(path: Path) -> CorpusCase:
    """The case in the folder `path`. Raises RenderError naming the file and the field that is missing or wrong."""
    file = path / "case.toml"
    if not file.is_file():
        raise RenderError(NOT_FOUND, f"{path} holds no case.toml", "see datasets/README.md")
    try:
        facts = msgspec.toml.decode(file.read_bytes(), type=Facts)
    except msgspec.MsgspecError as error:
        raise RenderError(NOT_FOUND, f"{file}: {error}", "datasets/README.md lists the fields") from None
    except ValueError as error:  # tomllib
        raise RenderError(NOT_FOUND, f"{file} is not TOML: {error}") from None
    return CorpusCase(path, facts)


def case_folders(kinds: Iterable[str] = KERNELS) -> list[Path]:
    """Folders of the cases, in a checkout or in the installed wheel, by issue number."""
    base = folder("datasets")
    if base is None:
        raise RenderError(NOT_FOUND, "this copy of RENDER has no datasets", "install the wheel, or use a checkout")
    found = [file.parent for kind in kinds for file in sorted((base / kind).glob("*/case.toml"))]
    return sorted(found, key=lambda p: (kinds_rank(p), _number(p.name), p.name))


def kinds_rank(path: Path) -> int:
    return FOLDERS.index(path.parent.name) if path.parent.name in FOLDERS else len(FOLDERS)


def _number(name: str) -> int:
    digits = name.split("-")[0].rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdigit() else 0


def load_cases(kinds: Iterable[str] = KERNELS) -> list[CorpusCase]:
    """All cases of the given kinds ("issues", "twins")."""
    return [load_case(path) for path in case_folders(kinds)]


def find_case(name: str) -> CorpusCase:
    """The case called `name` ("1924", "1190-uninit"); an unknown name is an error that lists the known ones."""
    for path in case_folders(FOLDERS):
        if path.name == name:
            return load_case(path)
    known = ", ".join(path.name for path in case_folders(FOLDERS))
    raise RenderError(NOT_FOUND, f"the corpus has no case {name}", f"known: {known}")


LABELS: tuple[str, ...] = get_args(Label)
