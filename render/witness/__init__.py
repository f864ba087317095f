"""A second opinion on a Type-II that rests on the bound: the same element, evaluated by other code.

`render.trace` cuts the computation of the worst element out of the run; `make` writes it down with its leaves and the
figures of the target (ulp errors, formats, dot models: data, no formulas), and `evaluate` computes what the element can
become with plain formulas in exact arithmetic (`render.exact`), one value at a time. The witness agrees where the
claimed value (the reference's exact value, or the device's) cannot be reached. The document is self-contained:
`render explain --check REPORT` evaluates it again without kernel, torch or Triton.

What both evaluations share, and why:

- `interval_ops.formats.model`, the parameters (p, emin, max) of the number formats, and the figures of the profile,
  copied into the document by `make`. They are data about the target. A second copy would say the same, and a wrong
  figure is a wrong assumption, which the verdict states (`assumes`), not a wrong computation.
- Published theorems: the error bound of a sum, the block model of a matrix unit. Their code is written twice, in other
  terms and at 192 bits (element by element where the run works with peaks of rows and columns). An error of the proof
  itself would pass: against that stand the random legal executions of the tests and the attacks of the adversary,
  which know neither. Welford's merges have a proof of their own here.
- The cut. A wrong operand, row or order in it would be evaluated faithfully: so the re-run must give the stored bound
  bit for bit, and each value of the cut in real arithmetic must lie in its bound (`render.trace.check`).

Taken from the run, and not checked a second time: which branch ran, addresses and masks, integers, and the bounds of
elements that an earlier launch or the host wrote where these cannot be followed (the witness names those).
"""
