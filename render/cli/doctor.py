"""`render doctor`: what is installed, what is covered, and a quick proof that this machine rounds as it must."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from render.cli.exits import guarded
from render.cli.options import given, taking
from render.result.defects import collected
from render.result.errors import RenderError
from render.result.options import ASSUMED
from render.result.versions import VERSION

_PACKAGES = ("triton", "torch", "numpy", "numba", "python-flint", "mpmath", "ml_dtypes", "typer", "rich", "safetensors")


class Check(NamedTuple):
    """One line of the self-test. `ok` is None where the check could not run; that is no failure."""

    name: str
    ok: bool | None
    detail: str


@guarded
@taking(*ASSUMED)
def command(
    soundness: Annotated[
        bool, typer.Option("--soundness", help="Attack the bounds with random legal executions (about 20 s).")
    ] = False,
    checks: Annotated[
        int | None, typer.Option("--checks", min=1, help="With --soundness: go on for so many element checks.")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="With --soundness: profile to attack; repeatable.")
    ] = None,
    warm: Annotated[
        bool, typer.Option("--warm", help="Compile what common kernels need, in parallel, and keep it.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="With --warm: processes; 0: one per core.")] = 0,
    **assumed: Any,
) -> int:
    """Show versions and rule coverage, and test that bounds round outward on this machine.

    The options of the target belong to --soundness: attacks make the choices that are left open, and only those.
    """
    chosen = given(assumed)
    if warm:
        from render.cli import warm as compiling

        return compiling.command(jobs)
    if soundness:
        from render.cli import soundness as attack

        return attack.command(checks, device, chosen)
    asked = [*(["checks"] if checks else []), *(["device"] if device else []), *chosen]
    if asked:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise RenderError("RND902", f"{names}: only with --soundness", "add --soundness, or leave it out")
    for title, lines in (("versions", versions()), ("machine", [*machine(), *serving()]), ("rules", coverage())):
        typer.echo(title)
        for name, value in lines:
            typer.echo("\n".join(_wrapped(f"  {name:<12}  ", value)))
        typer.echo()
    typer.echo("self-test")
    done = []
    with collected() as found:
        for check in self_test():
            done.append(check)
            mark = {True: "pass", False: "FAIL", None: "skip"}[check.ok]
            typer.echo(f"  {mark}  {check.name}: {check.detail}")
    typer.echo("\nfailures inside RENDER that verdicts were given in spite of")
    for line in [*(d.sentence for d in found.values()), *earlier()] or ["none was caught"]:
        typer.echo("\n".join(_wrapped("  ", line)))
    failed = sum(check.ok is False for check in done)
    typer.echo(f"\n{len(done)} checks, {failed} failed{' ' * 40}exit {int(failed > 0)}")
    return int(failed > 0)


def _wrapped(head: str, text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 88, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def versions() -> Iterator[tuple[str, str]]:
    """(package, installed version), without importing any of them."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    yield "render", VERSION
    yield "python", f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield package, "not installed"


def machine() -> Iterator[tuple[str, str]]:
    import os

    from interval_ops.code_cache import folders, writable

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield "cores", str(cores)
    yield "gpu", _gpu()
    kept = next((str(folder) for folder in folders(Path(__file__).parent) if writable(folder)), "nowhere: read-only")
    yield "compiled", kept
    yield "", "the first kernels on a machine are compiled, `render doctor --warm` does it ahead; then they are read"


def serving() -> Iterator[tuple[str, str]]:
    """Whether commands are run by a server."""
    from render.cli import serve

    told = [serve.described(one) for one in serve.servers()] if serve.POSSIBLE else ["not on this system"]
    yield "serve", "; ".join(told) or "no server is running (`render serve` starts one)"


def _gpu() -> str:
    try:
        import torch

        if torch.cuda.is_available():
            return f"{torch.cuda.get_device_name()} (not needed: kernels run on the CPU)"
    except Exception as error:  # a broken driver must not stop the doctor
        return f"cannot be asked: {error}"
    return "none (not needed: kernels run on the CPU)"


def coverage() -> Iterator[tuple[str, str]]:
    """How many operations have a rule, are exact, or are not supported; and the device profiles."""
    from interval_ops.profiles.profile import profile_names
    from render.ops import table as rules

    shapes = Counter(str(getattr(rule.shape, "value", rule.shape)) for rule in rules.RULES.values())
    tight = sum(bool(rule.tight) for rule in rules.RULES.values())
    yield "with a rule", f"{len(rules.RULES)} ({tight} tight)"
    yield "", ", ".join(f"{n} {shape}" for shape, n in shapes.most_common())
    yield "exact", f"{len(rules.EXACT)} (integers, addresses)"
    yield "unsupported", f"{len(rules.UNSUPPORTED)} (`render ops` names them)"
    yield "profiles", ", ".join(profile_names())


def earlier() -> Iterator[str]:
    """What was caught in earlier classifications on this machine, most frequent first."""
    from render.report.saved import folder, tallied

    counts = tallied()
    for what, n in sorted(counts.items(), key=lambda item: -item[1]):
        yield f"{what}, {n} in earlier runs"
    if counts:
        yield f"please report these; the counts are in {folder() / 'defects.json'}"


def self_test() -> Iterator[Check]:
    """The checks one after the other, so that each is shown as it ends."""
    from render.cli import selftest

    for name, check in selftest.CHECKS.items():
        yield run(name, check)


def run(name: str, check: Callable[[], str]) -> Check:
    """`check` returns what it looked at, raises AssertionError on a failure and LookupError where it cannot run."""
    try:
        return Check(name, True, check())
    except AssertionError as error:
        return Check(name, False, str(error))
    except LookupError as error:
        return Check(name, None, str(error))
    except Exception as error:  # any other failure is a failed check, not a crash of the doctor
        return Check(name, False, f"{type(error).__name__}: {error}")
