"""A second opinion on a Type-II that rests on the bound: the same element, evaluated by other code.

`render.slice` cuts the computation of the worst element out of the run; `make` writes it down with its leaves and the
figures of the target (ulp errors, formats, dot models: data, no formulas), and `evaluate` computes what the element can
become with plain formulas in mpmath, one value at a time. The witness agrees where the claimed value (the reference's
exact value, or the device's) cannot be reached. The document is self-contained: `render explain --check REPORT`
evaluates it again without kernel, torch or Triton.

Taken from the run, and not checked a second time: which branch ran, addresses and masks, and the bounds of elements
that an earlier launch or the host wrote (the witness names those).
"""
