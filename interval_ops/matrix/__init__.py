"""Products of matrices and of windows of images in float64, and those of their magnitudes, from single precision."""
