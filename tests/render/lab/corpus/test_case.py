"""Cases load, their files import without launching anything, and their references run at a reduced size."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch

from render.entry.execution import on_cpu
from render.lab.corpus import device_models
from render.lab.corpus.case import FOLDERS, CorpusCase, case_folders, find_case, load_case, load_cases
from render.result import packaged as data
from render.result.errors import RenderError

NUMBERS = "1924 5990 3017 5895 4551 1190 2843 1960 2680b 376 5065 1840 1666 1937 1671 1821 4701 1808 1578 6227"
ISSUES = NUMBERS.split()
CASES = load_cases()


def test_the_twenty_issues_are_there():
    assert {c.id for c in load_cases(["issues"])} == set(ISSUES)


def test_ground_truth_of_the_paper():
    bugs = {c.id for c in load_cases(["issues"]) if c.facts.label == "Type-II"}
    assert bugs == {"3017", "1666", "1821", "4701"}


def test_every_bug_has_a_twin_that_is_none():
    repaired = {c.facts.twin_of for c in CASES if c.is_twin and c.facts.label == "Type-I"}
    assert repaired >= {"3017", "1666", "1821", "4701"}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_facts_agree_with_each_other(case: CorpusCase):
    facts = case.facts
    assert facts.id == case.path.name
    assert facts.label == facts.expected.label
    assert (facts.device.kind == "none") == (facts.expected.device == "none")
    assert facts.device.kind == "none" or "easured" in facts.device.provenance
    assert not facts.twin_of or (facts.change and facts.twin_of in ISSUES)
    assert facts.expected.source_codes or facts.expected.source_level != facts.expected.label


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_file_imports_and_reference_runs(case: CorpusCase):
    module = case.load()
    inputs = case.inputs(module, small=True)
    reference = case.reference(module)
    known = inspect.signature(reference).parameters
    with on_cpu():
        result = reference(**{n: v for n, v in inputs.values.items() if n in known})
    outputs = result if isinstance(result, tuple) else (result,)
    assert all(isinstance(x, torch.Tensor) and torch.isfinite(x).all() for x in outputs)


@pytest.mark.parametrize("case", [c for c in CASES if c.facts.device.kind != "none"], ids=lambda c: c.id)
def test_device_output_has_the_shapes_of_the_reference(case: CorpusCase):
    module = case.load()
    inputs = case.inputs(module, small=True)
    reference = case.reference(module)
    known = inspect.signature(reference).parameters
    result = reference(**{n: v for n, v in inputs.clone().values.items() if n in known})
    wanted = [tuple(x.shape) for x in (result if isinstance(result, tuple) else (result,))]
    output = device_models.generate(case, module, inputs)
    assert output is not None
    assert [tuple(x.shape) for x in output] == wanted


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_published_shapes_are_the_shapes_of_the_inputs(case: CorpusCase):
    if case.id.split("-")[0] in ("1671", "1821", "1808"):
        pytest.skip("large inputs; their sizes are defaults of make_inputs")
    inputs = case.inputs(case.load()).values
    for name, shape in case.facts.shapes.items():
        if name in inputs:
            assert list(inputs[name].shape) == shape


def test_same_seed_same_inputs():
    case = find_case("376")
    module = case.load()
    first, second = case.inputs(module), case.inputs(module)
    assert all(torch.equal(a, b) for a, b in zip(first.args, second.args, strict=True))


def test_kernels_are_plain_files():
    for case in CASES:
        text = case.kernel_file.read_text(encoding="utf-8")
        imports = {line for line in text.splitlines() if line.startswith(("import ", "from "))}
        assert imports <= {"import torch", "import triton", "import triton.language as tl"}, case.id
        assert "environ" not in text and "render" not in text.lower(), case.id


def test_an_unknown_case_lists_the_known_ones():
    with pytest.raises(RenderError, match="no case 999") as error:
        find_case("999")
    assert "5065" in str(error.value)


@pytest.mark.parametrize("field", ["seed", "root_cause", "device"])
def test_a_missing_field_is_named(tmp_path: Path, field: str):
    lines = (find_case("4551").path / "case.toml").read_text().split("\n\n")
    head = "\n".join(line for line in lines[0].splitlines() if not line.startswith(f"{field} ="))
    rest = [block for block in lines[1:] if not block.startswith(f"[{field}]")]
    (tmp_path / "case.toml").write_text("\n\n".join([head, *rest]))
    with pytest.raises(RenderError, match=f"`{field}`") as error:
        load_case(tmp_path)
    assert str(tmp_path / "case.toml") in str(error.value)


def test_an_unknown_field_is_named(tmp_path: Path):
    (tmp_path / "case.toml").write_text('colour = "red"\n' + (find_case("4551").path / "case.toml").read_text())
    with pytest.raises(RenderError, match="colour"):
        load_case(tmp_path)


def test_a_folder_without_facts_is_an_error(tmp_path: Path):
    with pytest.raises(RenderError, match=r"no case\.toml"):
        load_case(tmp_path)


def test_cases_of_an_installed_wheel_are_found(monkeypatch, tmp_path: Path):
    target = tmp_path / "render" / "_data" / "datasets" / "issues" / "4551"
    target.mkdir(parents=True)
    (target / "case.toml").write_text((find_case("4551").path / "case.toml").read_text())
    monkeypatch.setattr(data, "_PACKAGE", tmp_path / "render")
    assert [p.name for p in case_folders(FOLDERS)] == ["4551"]


def test_an_unknown_model_is_named():
    case = find_case("1924-ieee")
    from dataclasses import replace

    import msgspec

    device = msgspec.structs.replace(case.facts.device, model="crystal-ball")
    broken = replace(case, facts=msgspec.structs.replace(case.facts, device=device))
    module = broken.load()
    with pytest.raises(RenderError, match="crystal-ball"):
        device_models.generate(broken, module, broken.inputs(module, small=True))


def test_what_is_not_measured_says_so():
    assert "not measured" in device_models.describe(find_case("1924"))
    assert "injected fault" in device_models.describe(find_case("3017"))
    assert device_models.describe(find_case("1666")) == "no device output"
