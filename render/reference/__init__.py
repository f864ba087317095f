"""The other side of a comparison: the reference as written, E in float64 and in more bits, and its own rounding."""
