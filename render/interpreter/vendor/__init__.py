"""Vendor library functions: value lanes of floating-point ones, conversions, predicates and integer functions."""
