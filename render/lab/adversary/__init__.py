"""The adversary: runs unedited kernels under random legal executions of a target and climbs towards the bounds.

A result outside the bounds of the interval run is a soundness defect. The arithmetic here is independent of the rules
it attacks: of `interval_ops` it uses the formats and the data of a profile, never a rule.
"""
