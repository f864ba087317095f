"""RENDER: says whether a Triton kernel and its reference differ by round-off or by a bug."""
