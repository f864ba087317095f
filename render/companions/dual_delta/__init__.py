"""Dual-Delta Testing: the errors of two functions against one oracle, compared as distributions."""

from render.companions.dual_delta.experiment import DualDelta, Trials, dual_delta, experiment
from render.companions.dual_delta.statistics import Statistics, analysed

__all__ = ["DualDelta", "Statistics", "Trials", "analysed", "dual_delta", "experiment"]
