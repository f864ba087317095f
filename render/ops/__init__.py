"""The one table of operations: what Triton, the vendor library and PyTorch name, and how each is bounded."""
