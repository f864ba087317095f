"""Dual-Delta Testing: the errors of two functions against one oracle, compared as distributions."""

from render.companions.dual_delta.experiment import DualDelta, Plan, dual_delta, experiment
from render.companions.dual_delta.statistics import Statistics, analysed

__all__ = ["DualDelta", "Plan", "Statistics", "analysed", "dual_delta", "experiment"]
