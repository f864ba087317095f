"""Sums, extrema, scans and recurrences along an axis, in any order."""
