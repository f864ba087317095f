"""What sums lose in their accumulators: terms out of slices, sums of them rounded in any format, and an index."""
