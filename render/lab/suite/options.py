"""How a suite is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from render.result.options import Options


@dataclass(frozen=True)
class SuiteOptions:
    """`expression`: only tests whose name holds it; `limit`: seconds for one test, 0 for any; `comparators`: further
    functions that compare, as `module:function`; `budget`: also find out which cause owns each bound; `configs`: the
    autotune configurations, as for `classify`."""

    device: str = "any"
    seed: int = 0
    budget: bool = False
    expression: str = ""
    limit: float = 0.0
    comparators: tuple[str, ...] = ()
    configs: str = "first"
    session: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.settings  # what it refuses is refused before anything runs

    @property
    def settings(self) -> Options:
        return Options(
            device=self.device, seed=self.seed, budget=self.budget, configs=self.configs, session=self.session
        )

    def wants(self, test: str) -> bool:
        return self.expression in test
