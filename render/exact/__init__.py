"""Exact arithmetic: numbers of many bits that hold the exact value, for the witness and the reference in more bits.

`points` chooses the kind of number, once: Arb's balls (python-flint), or mpmath's intervals behind the same methods
(`portable`) where python-flint cannot be imported. A ball serves for a point and what is computed from it; a wide value
is a pair of exact points, rounded outward (`intervals`). Functions of one argument are one table (`functions`).

Nothing here knows the engine: of `interval_ops` only the parameters of the number formats are read.
"""
