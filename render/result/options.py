"""What a classification may be told, apart from the kernel: the one table of options.

A field of `Options` is an option everywhere: a keyword of `render.classify`, and, where it has a help line, of the
commands that take it. Adding one adds a field here and the place that reads it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal, TypeVar

from render.result.errors import RenderError, expect
from render.result.versions import triton_version

F = TypeVar("F", bound=Callable[..., Any])
TARGET, INPUTS, REPORT, EXPLAIN = "Target", "Inputs", "Report", "Explanations (further runs)"
Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is done next)."""

EXPLANATIONS: Mapping[str, str] = {
    "counterfactuals": "Re-run with IEEE products, float32 accumulators, no casts and on other devices, and say what "
    "each does to the bound.",
    "power": "Run automatic mutants of the kernel and say how many the bound would notice.",
    "lines": "Record how the bound grows per source line (shown by `render explain last`).",
    "nonfinite": "Say where NaN and infinity are made, also where nothing of them reaches an output.",
    "divergence": "For a bug: the first result that leaves what the reference computes, also where a repair is known.",
}
"""What else can be found out, by name: a flag of the command line each."""


def _option(default: Any, help: str = "", panel: str = TARGET, metavar: str | None = None) -> Any:
    """A field with its help line; without one it is no option of the command line."""
    return field(default=default, metadata={"help": help, "panel": panel, "metavar": metavar})


def check_seed(seed: int) -> None:
    """Raises RenderError for a number that torch's generators do not take."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise RenderError("RND902", f"the seed {seed:.3e} is no number of 64 bits", "--seed 0")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a classification may be told: each field is a keyword of `render.classify`, or they go in one object.

        render.classify(matmul, a, b, ref=torch.matmul, options=render.Options(device="sm_90", seed=3))

    `session` goes to the interpreter session as it is; `progress` is called before each further run, `on_stage` with
    the verdict of each stage as soon as it is known. Without `wait` the first one is handed out: see `Verdict.wait`;
    `diagnose`: the line of a bug is searched for."""

    device: str = _option("any", "Device profile: any, ieee, sm_80, sm_90, a100, h100, ...")
    sum_order: Literal["any", "tree"] = _option(
        "any", "any: sums in any order; tree: as Triton lowers them (a much narrower bound where it holds)."
    )
    fp_contraction: Literal["any", "on", "off"] = _option("any", "Whether products that are added become fma.")
    triton_version: str | None = _option(
        None, "Triton that compiles the kernel. Default: the installed one.", metavar="3.N"
    )
    ref_precision: Literal["ieee", "tf32", "tf32-rna"] = _option(
        "ieee", "Operands of the reference's float32 matrix products: as they are, truncated or rounded to TF32."
    )
    assume_exact: tuple[str, ...] = _option(
        (), "Take this vendor function as exact, whatever its error; results are tainted. Repeatable.", metavar="NAME"
    )
    configs: str = _option(
        "first",
        "Autotune configurations to judge: the first that compiles, all (the worst counts), or one by its index.",
        metavar="first|all|N",
    )
    programs: str = _option(
        "all",
        "Run only this part of each launch's programs, spread evenly, and judge what they store: for sizes of "
        "production. A bug is a bug; nothing found is Inconclusive.",
        metavar="all|P%|N",
    )
    threads: int | None = _option(
        None,
        "Cores that a launch uses; results do not depend on it. Default: all that this process may use, or what "
        "OMP_NUM_THREADS says.",
        metavar="N",
    )
    seed: int = _option(0, "Seed of generated inputs.", INPUTS)
    budget: bool = _option(True, "Attribute the bound to its causes; without it, faster.", REPORT)
    diagnose: bool = _option(True)
    explain: tuple[str, ...] = _option(())
    explain_seconds: float = _option(60.0, "Time that each of these may take.", EXPLAIN)
    progress: Progress | None = None
    on_stage: Callable[[Any], None] | None = None
    wait: bool = _option(True)
    session: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("device", "ref_precision"):
            expect(name, getattr(self, name), str)
        expect("seed", self.seed, int)
        expect("threads", self.threads, int, none=True)
        if self.threads is not None and self.threads < 1:
            raise RenderError("RND902", f"{self.threads} is no number of threads", "1 or more")
        expect("triton_version", self.triton_version, str, none=True)
        expect("explain", self.explain, str, tuple, list, set, frozenset)
        expect("assume_exact", self.assume_exact, str, tuple, list, set, frozenset)
        check_seed(self.seed)
        if self.triton_version is not None:
            try:
                triton_version(self.triton_version)
            except ValueError as error:
                raise RenderError("RND902", str(error), "--triton-version 3.9") from None
        names = (self.explain,) if isinstance(self.explain, str) else tuple(self.explain)
        if unknown := sorted(set(names) - EXPLANATIONS.keys()):
            known = ", ".join(EXPLANATIONS)
            raise RenderError("RND902", f"no explanation is called {unknown[0]!r}", f"there are: {known}")
        object.__setattr__(self, "configs", str(self.configs))
        if self.configs not in ("first", "all") and not self.configs.isdecimal():
            raise RenderError("RND902", f"no autotune configurations are called {self.configs!r}", "first, all or N")
        object.__setattr__(self, "programs", str(self.programs))
        _ = self._part  # raises
        object.__setattr__(self, "explain", names)
        object.__setattr__(self, "assume_exact", tuple(self.assume_exact))

    @property
    def _part(self) -> dict[str, float | int]:
        """What the session is told of `programs`."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?)(%?)", self.programs)
        number = float(found[1]) if found else 0.0
        if self.programs == "all":
            return {}
        if not found or not number or (found[2] and number > 100) or (not found[2] and not self.programs.isdecimal()):
            raise RenderError("RND902", f"{self.programs!r} is no part of the programs", "all, 1% or a number of them")
        return {"programs": number / 100 if found[2] else int(self.programs)}

    @property
    def for_session(self) -> dict[str, Any]:
        """What the interpreter session takes; nothing for what was left open."""
        chosen = {name: getattr(self, name) for name in ASSUMED}
        named = {name: value for name, value in chosen.items() if value not in (None, "any")}
        exact = {"assume_exact": frozenset(self.assume_exact)} if self.assume_exact else {}
        threads = {} if self.threads is None else {"threads": self.threads}
        config = {"config": int(self.configs)} if self.configs.isdecimal() else {}
        return {**named, **exact, **config, **threads, **self._part, **self.session}


ASSUMED = ("sum_order", "fp_contraction", "triton_version")
"""Options that say what bounds may assume of the compiler."""

NAMES: Mapping[str, Field[Any]] = {f.name: f for f in fields(Options)}


def split(keywords: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """(options, the other keywords)."""
    others = {name: value for name, value in keywords.items() if name not in NAMES}
    return Options(**{name: value for name, value in keywords.items() if name in NAMES}), others


def listing_options(function: F) -> F:
    """Shows the options in the signature of a function that takes them as `**keywords`: for help and completion."""
    own = inspect.signature(function)
    shown = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    for name, row in NAMES.items():
        default = {} if row.default is MISSING else row.default
        shown.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=row.type))
    rest = [p for p in own.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    function.__signature__ = own.replace(parameters=[*shown, *rest])  # type: ignore[attr-defined]
    return function
