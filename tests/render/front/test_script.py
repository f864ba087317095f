"""Reproducers as people post them (`tests/fixtures/scripts`): the right verdict at the right line, one command each."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from render.front.script import invocation, run
from render.front.watch import Compared, Watch
from render.result.errors import UnsupportedOp
from render.result.options import Options
from tests.idiom_zoo import RIGHT, WRONG, Idiom, every_form_is_met, idioms, ran

SCRIPTS = Path(__file__).resolve().parents[2] / "fixtures" / "scripts"
ROUND, BUG = "Type-I", "Type-II"


@dataclass(frozen=True)
class Posted:
    """A command, the label of each comparison by the text of its line, and how the script itself ends.

    `script_exit` is None where that hangs on the last bits of two matrix products of the processor's library.
    """

    words: tuple[str, ...]
    says: tuple[tuple[str, str], ...]
    script_exit: int | None = 0
    module: bool = False

    def __str__(self) -> str:
        return " ".join(self.words)


def posted(words: str, *says: tuple[str, str], ends: int | None = 0, module: bool = False) -> Posted:
    return Posted(tuple(words.split()), says, ends, module)


QUICK = [
    posted("softmax_no_max_print.py", ("print(", BUG)),
    posted("compiled_reference.py", ("torch.equal(", ROUND), ("torch.isclose(", ROUND)),
    posted("harness_class.py", ("err = (got - want)", BUG), ends=1),
    posted("crash_after_compare.py", ("torch.equal(", ROUND), ends=1),
    posted("oob_store_in_place.py", ("torch.allclose(", BUG)),
    posted("grouped_pointers.py", *[("torch.allclose(", ROUND)] * 3),
    posted("two_kernels.py", ("v1 vs v2", ROUND), ("v1 vs v3", BUG)),
    posted("notebook_export.py", ("torch.allclose(", BUG)),
    posted("mypkg/check.py", ("assert_close(", ROUND), ("assert_close(", BUG), ends=1),
    posted("mypkg.check", ("assert_close(", ROUND), ("assert_close(", BUG), ends=1, module=True),
    posted("pipeline_two_stage.py", ("x.exp()", ROUND), ("y / y.sum()", BUG), ends=1),
    posted("unittest_style.py", ("torch.allclose(", BUG), ends=1),
    posted("tf32_surprise.py", ("assert_close(", ROUND), ends=None),
    posted("split_k_atomics.py", ("print(", BUG)),
    posted("inline_ptx.py", ("assert_close(", ROUND)),
    posted("item_half_sum.py", ("rel err", ROUND), ("MISMATCH", ROUND)),
    posted("matmul_lost_accumulator.py", ("print(", BUG)),
    posted("gluon_copy.py", ("assert_close(", ROUND)),
]
SLOW = [
    posted("fp8_quantizer.py", ("assert_close(s", ROUND), ("assert_close(y", ROUND), ("torch.allclose(", BUG), ends=1),
    posted("tutorial_softmax.py", ("torch.allclose(", ROUND)),
    posted("autotuned_matmul.py", ("torch.allclose(", ROUND)),
    posted("matmul_k_mask_shapes.py", *[("torch.allclose(", ROUND), ("print(", ROUND)] * 2, ("torch.allclose(", BUG),
           ("print(", BUG)),
    posted("fused_attention.py", ("vs sdpa", ROUND), ("torch.allclose(", ROUND)),
    posted("fused_attention.py --causal --ctx 32", ("vs sdpa", ROUND), ("torch.allclose(", ROUND)),
    posted("attention_missing_rescale.py", ("assert_close(", BUG), ends=1),
    posted("layer_norm_locks.py", *[("torch.allclose(", ROUND)] * 4),
    posted("gptq_linear.py", ("assert_allclose(", ROUND)),
    posted("cross_entropy_apply.py", ("assert_close(loss", ROUND), ("assert_close(grad", ROUND)),
    posted("pytest -q -p no:cacheprovider test_gelu_params.py", *[("assert_close(", ROUND)] * 4),
    posted("typer_rms_norm.py", ("max diff", BUG), (".item() > 1e-2", BUG), ends=1),
    posted("autotune_prune_bias.py", ("max err", BUG)),
    posted("pytest -q -p no:cacheprovider test_variance_approx.py", ("rel_close(", BUG), ("rel_close(", ROUND),
           ("allclose(", BUG), ("approx(", ROUND), ends=1),
    posted("unittest_subtests_cumsum.py", *[("assert_close(", ROUND)] * 4, ("assertAlmostEqual(", ROUND),
           ("assertLess(", ROUND), ("assertTrue(", BUG), ends=1),
    posted("backward_wrong_factor.py", ("mean=", ROUND), ("mean=", BUG)),
    posted("graph_replay_streams.py", ("max diff", ROUND), ("torch.allclose(", ROUND)),
    posted("kernel_factory_lambda_refs.py", ("torch.allclose(", ROUND), ("torch.allclose(", BUG)),
    posted("numpy_reference_float64.py", ("assert_allclose(", ROUND), ("array_almost_equal(", ROUND),
           ("np.allclose(", ROUND)),
    posted("causal_conv_module.py", ("max_err=", BUG), ("assert max_err", BUG), ends=1),
    posted("activation_registry.py", *[("torch.max((a - b)", ROUND)] * 2),
    posted("logged_statistics.py", *[("max_abs", ROUND), ("max_rel", ROUND), ("rmse", ROUND)] * 2),
    posted("triton_op_compiled.py", ("torch.equal(", ROUND), ("assert_close(", ROUND)),
    posted("flashpkg/tests/check_softplus.py", ("(a - b).norm()", ROUND), ("assert_close(", ROUND), ends=1),
    posted("pytest -q -p no:cacheprovider test_norm_drawn.py", *[("assert_close(", ROUND)] * 4),
    posted("dtype_loop_seeds.py", *[("print(", ROUND), ("if diff.max()", ROUND)] * 2,
           *[("print(", ROUND), ("if ", ROUND), ("print(", ROUND)] * 4),
    posted("inductor_check.py", ("assert_close(", ROUND)),
    posted("numpy_report.py", ("print(", ROUND), ("assert_allclose(", ROUND), ends=1),
    posted("conv1d_args.py", ("assert (y - ref)", ROUND), ends=1),
    posted("conv1d_args.py --dtype bf16 -L 30", ("assert (y - ref)", ROUND)),
    posted("fp16_accumulator.py", ("assert_close(", ROUND), ends=1),
]  # fmt: skip
WHERE = {
    "oob_store_in_place.py": "oob_store_in_place.py:7",
    "mypkg/check.py": "rms.py:14",
    "pipeline_two_stage.py": "pipeline_two_stage.py:17",
    "matmul_lost_accumulator.py": "matmul_lost_accumulator.py:11",
    "backward_wrong_factor.py": "backward_wrong_factor.py:15",
    "typer_rms_norm.py": "typer_rms_norm.py:26",
    "autotune_prune_bias.py": "autotune_prune_bias.py:32",
    "unittest_subtests_cumsum.py": "unittest_subtests_cumsum.py:9",
    "kernel_factory_lambda_refs.py": "kernel_factory_lambda_refs.py:14",
    "causal_conv_module.py": "causal_conv_module.py:19",
}
"""Where a wrong kernel is, by the script: the guilty line."""


def judged(case: Posted) -> tuple[list[Compared], int]:
    with Watch(Options(budget=False)) as watch:
        ended = run(invocation(case.words, case.module))
    return watch.comparisons, ended.exit_code


def _is_fixture(module: object) -> bool:
    return str(getattr(module, "__file__", None)).startswith(str(SCRIPTS))


def check(case: Posted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPTS)
    before = dict(sys.modules)
    found, ended = judged(case)
    for name in [n for n in sys.modules if n not in before and _is_fixture(sys.modules[n])]:
        del sys.modules[name]
    for one in found:
        assert one.error is None, one.error
    verdicts = [(one, one.verdict) for one in found if one.verdict is not None]
    said = [(Path(one.file).read_text().splitlines()[one.line - 1], verdict.label) for one, verdict in verdicts]
    assert [label for _, label in said] == [label for _, label in case.says], said
    for (line, _), (text, _) in zip(said, case.says, strict=True):
        assert text in line
    assert case.script_exit is None or ended == case.script_exit
    wrong = [verdict for _, verdict in verdicts if verdict.label == BUG]
    for verdict in wrong if case.words[0] in WHERE else []:
        assert f"{verdict.file}:{verdict.line}".endswith(WHERE[case.words[0]])


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_scripts_as_they_are_posted(case: Posted, monkeypatch: pytest.MonkeyPatch) -> None:
    check(case, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_more_scripts_as_they_are_posted(case: Posted, monkeypatch: pytest.MonkeyPatch) -> None:
    check(case, monkeypatch)


def test_the_command_keeps_output_and_verdicts_apart(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "render", "run", "-q", "--json", str(out), str(SCRIPTS / "crash_after_compare.py")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stdout
    lines = done.stderr.splitlines()
    assert any(line.startswith("render: ") and "TYPE-I RND100" in line for line in lines)
    assert "KeyError: 'speedup'" in lines and not [line for line in lines if "render/front" in line]
    content = json.loads(out.read_text())
    (one,) = content["comparisons"]
    assert content["script_exit"] == 1 and one["line"] == 11 and one["label"] == "Type-I"
    assert one["verdict"]["verdict"]["code"] == one["code"] == "RND100"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "nothing to run"),
        (("no_such.py",), "does not exist"),
        ((".",), "is a folder"),
        (("-m", "no.such"), "no.such"),
    ],
)
def test_what_cannot_be_run_is_told(words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "render", "run", *words], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode == 2 and text in done.stderr.replace("\n", " ")) or "Missing argument" in done.stderr


@pytest.mark.parametrize(
    ("name", "instruction", "text"),
    [
        ("gluon_shared.py", "", "Gluon's gl.allocate_shared_memory is not supported"),
        ("inline_ptx.py", "testp.finite.f32", "testp.finite.f32 has no rule"),
        ("inline_ptx.py", "cos.approx.f16", "of cos there are cos.approx.f32"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(name: str, instruction: str, text: str, tmp_path: Path) -> None:
    script = tmp_path / name
    source = (SCRIPTS / name).read_text()
    script.write_text(source.replace("ex2.approx.ftz.f32", instruction) if instruction else source)
    with Watch(Options(budget=False)) as watch:
        ended = run(invocation((str(script),)))
    assert not watch.comparisons and isinstance(ended.error, UnsupportedOp) and text in str(ended.error)
    assert str(script) == ended.error.file


IDIOMS = list(idioms())


def idiom(one: Idiom, folder: Path) -> None:
    """Right and wrong: their labels, and the line of the factor; or the reason why it is refused."""
    for factor, label in ((RIGHT, ROUND), (WRONG, BUG)):
        (folder / label).mkdir()
        with contextlib.chdir(folder / label):
            found = ran(one, factor, folder / label)
        if one.refused:
            assert one.refused in found.refused and not found.labels
        else:
            assert set(found.labels) == {label} and not found.refused
            assert (WRONG in found.line) == (label == BUG)


def test_there_are_forty_idioms_of_every_form() -> None:
    assert len(set(map(str, IDIOMS))) == len(IDIOMS) >= 40 and every_form_is_met()


@pytest.mark.parametrize("one", IDIOMS[:18:4], ids=str)
def test_some_idioms(one: Idiom, tmp_path: Path) -> None:
    idiom(one, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("one", idioms(120), ids=str)
def test_every_idiom(one: Idiom, tmp_path: Path) -> None:
    idiom(one, tmp_path)


def test_threads_of_a_script_are_part_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with Python, which waits for them; but not for a pool that nobody shut down."""
    file = tmp_path / "threads.py"
    file.write_text(
        "import threading, time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()\n"
        "print(ThreadPoolExecutor(1).submit(int, '5').result())\n"
    )
    assert run(invocation([str(file)])).exit_code == 0
    assert capsys.readouterr().out == "5\nlate\n"


def test_a_reference_made_of_what_the_kernel_overwrote_is_told(tmp_path: Path) -> None:
    (tmp_path / "inplace.py").write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def k(X, B: tl.constexpr):\n"
        "    i = tl.arange(0, B)\n"
        "    x = tl.load(X + i)\n"
        "    tl.store(X + i, x * tl.sigmoid(x))\n"
        "x = torch.randn(128, device='cuda')\n"
        "k[(1,)](x, 128)\n"
        "assert torch.allclose(x, torch.nn.functional.silu(x))\n"
    )
    command = [sys.executable, "-m", "render", "run", "inplace.py"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 2 and "x.clone()" in ran.stderr, ran.stderr
    assert "what a kernel stored went into both x and" in ran.stderr and "inplace.py:9" in ran.stderr, ran.stderr
