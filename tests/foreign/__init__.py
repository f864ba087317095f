"""The foreign adversary: whole programs as a device could run them, by code that shares nothing with what it attacks.

Formats, roundings, error figures and matrix units are written out again from the documents (`figures`, `numbers`); the
kernels run on Triton's stock interpreter with other arithmetic in it (`executor`), and what the host computes in torch
between launches runs as PyTorch's own CUDA kernels do (`host`). Nothing here but `attack` and the tests imports RENDER.
"""
