"""Runs unedited Triton kernels on a CPU with an interval on every floating-point element."""
