"""Whole PyTorch models, layer by layer: which module first differs by more than rounding explains, and which side."""
