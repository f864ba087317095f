"""Codes of a Type-II: what the bug is."""

from __future__ import annotations

from render.result.codes.row import Code

TYPE_II = (
    Code(
        code="RND201",
        title="the kernel computes something else than the reference",
        sentence="bug: the kernel computes something else than the reference",
        rank=6,
        subtype="source",
        prose="The reference, recomputed in float64 so that it carries no rounding of its own, lies outside the "
        "envelope of the kernel. No order of summation, no rounding, no contraction that the device allows leads from "
        "one to the other: the two formulas differ. (Either one may be the wrong one.) Less than half a rounding to "
        "float32 accuses nobody: no result in that format could show it.",
        maths="E not in T, beyond E's own error bound.      T contains the exact value of the kernel's formula by "
        "construction, so the formulas differ.",
        example="a missing scale, a dropped last block of K, swapped strides, a mask that is off by one",
        steps=(
            "run the kernel on a small shape and compare by hand; check strides, masks and the K loop first",
            "if the kernel is right, the reference is not the same function: check its arguments",
        ),
        more="Start at the element with the largest excess: which inputs did it read?",
    ),
    Code(
        code="RND202",
        title="the device output is outside the bound, the reference inside",
        sentence="bug below the source (compiler, race or hardware): only the device output is out of bound",
        rank=7,
        subtype="device",
        prose="The source of the kernel is fine: its envelope contains the reference. The output that was recorded on "
        "the device is outside the envelope. Something below the source went wrong: a compiler defect, a race between "
        "warps, a launch with other arguments, or hardware.",
        maths="E in T,   y_dev not in T",
        example="a bfloat16 tl.dot on sm_70 that an old Triton compiled to a float16 instruction",
        steps=("look for a race, num_stages > 1, or a miscompiled op: the source alone is within the bound",),
        more="Check first that the recorded output belongs to these inputs; then try another Triton version, "
        "num_warps=1, num_stages=1, and run twice: results that change point at a race.",
    ),
    Code(
        code="RND204",
        title="the NaN/Inf pattern differs",
        sentence="bug: {detail}",
        rank=4,
        subtype="nonfinite",
        prose="The reference (or the device) has a NaN or an infinity where the kernel can produce none, or the other "
        "way round. NaN never counts as inside a bound.",
        maths="isnan(E[i]) while T[i] has no NaN, or T[i] is exactly NaN/Inf while E[i] is finite",
        example="a softmax row that is masked completely: max = -inf, and -inf - (-inf) = NaN",
        steps=("find the overflow, inf - inf, 0/0, or a load that needs other=...",),
        more="Look at the first such element: an empty row, a division by zero, exp of a large number, a load whose "
        "masked lanes have no `other`.",
    ),
    Code(
        code="RND205",
        title="shape or dtype differs, or output elements are never stored",
        sentence="bug: {detail}",
        rank=5,
        subtype="shape",
        prose="Kernel and reference cannot be compared element by element, or some elements of an output were never "
        "written by any program.",
        maths="shape(y) != shape(y_ref), or some i: no program stores y[i]",
        example="grid = (n // BLOCK,)      # the last n % BLOCK elements are never stored: use triton.cdiv(n, BLOCK)",
        steps=("check the output's allocation, the grid and the store mask",),
    ),
    Code(
        code="RND206",
        title="numerically unstable implementation",
        sentence="bug: the implementation is numerically unstable",
        rank=8,
        subtype="source",
        prose="Everything is inside the envelope, but only because the kernel's own error is enormous: at least half "
        "of the digits that the conditioning allows are lost, or a jump (a sign, a floor, a quadrant, a comparison) "
        "falls to the wrong side because they are, where a careful implementation of the reference's formula does not "
        "suffer. A better algorithm for the same function exists.",
        maths="eta = |y - E| / D > 8 and eta >= sqrt(|E| / D),   D = first-order error of the reference's own formula "
        "with one rounding per input and operation",
        example="var = tl.sum(x*x)/n - mean*mean     # cancels when |mean| is large\n"
        "var = tl.sum((x-mean)*(x-mean))/n   # stable",
        steps=("rewrite the step that cancels: two-pass variance, softmax less its maximum, expm1, log1p",),
    ),
    Code(
        code="RND207",
        title="the kernel accesses memory outside every known tensor",
        sentence="bug: the kernel {detail}",
        rank=1,
        subtype="memory",
        at_line=True,
        prose="An active lane of a load, a store or an atomic has an address outside the tensor that its pointer comes "
        "from. On a GPU that reads whatever is there, or faults. No interval is given for elements that depend on "
        "such a read.",
        maths="base <= address < base + bytes is violated for a lane whose mask is true",
        example="x = tl.load(x_ptr + offs)                       # offs reaches beyond n\n"
        "x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)",
        steps=("check the strides and the mask of this access against the tensor's shape",),
    ),
    Code(
        code="RND208",
        title="never-written memory reaches an output",
        sentence="bug: memory that was never written reaches an output",
        rank=2,
        subtype="memory",
        at_line=True,
        prose="The kernel reads memory that nothing has written since it was allocated, and the result depends on it. "
        "It may hold zeros today and garbage tomorrow.",
        maths="an output element depends on a byte that neither the host nor a kernel has written",
        example="out = torch.empty(n)      # then tl.atomic_add(out_ptr + i, v): use torch.zeros(n)",
        steps=("zero the tensor before the launch, or store every element that is read",),
    ),
    Code(
        code="RND209",
        title="programs or lanes store different values to one address",
        sentence="bug: programs or lanes store different values to one address",
        rank=3,
        subtype="memory",
        at_line=True,
        prose="Two program instances (or two lanes of one store) write different values to the same address without "
        "an atomic. Which one survives depends on timing.",
        maths="store(p, address, v) and store(q, address, w), p != q, v != w, without synchronisation",
        example="each program of a split reduction stores its partial sum to out[0] instead of using tl.atomic_add",
        steps=("mask the store, or make the programs' tiles disjoint",),
        more="Where the values are partial results: tl.atomic_add, or a slot for each program and a reduction "
        "afterwards.",
    ),
    Code(
        code="RND211",
        title="another function, hidden by a wide bound",
        sentence="bug: another function than the reference, which the bound would hide",
        rank=9,
        subtype="source",
        prose="The exact value of the reference lies in the bound, but the bound is wide, and without any rounding "
        "the two sides still differ: the kernel was run once more with every error silent, which leaves the exact "
        "value of its formula, and that is not the reference's. Roundings of constants and inputs do not explain it, "
        "an output shows it or too many elements differ for chance, and a second evaluation of the element agrees. "
        "(Either side may be the wrong one.)",
        maths="|F - E| > s    F, E: kernel and reference without rounding;  s = 2^-20 (|E| + sum_i |dE/dx_i| |x_i|)\n"
        "|F - E| > u |E| somewhere (u: unit roundoff of the output's format), or 8 elements or more to one side",
        example="block-scaled fp8: the scale of the second operand is not advanced along K; the scales differ by 5 %, "
        "the fp8 casts allow 6 %",
        steps=(
            "run the kernel on a small shape and compare by hand: constants, scales, masks and the K loop first",
            "an approximation on purpose (a polynomial, another eps) is such a difference too",
        ),
        more="Where the approximation is meant, make the reference compute the same one.",
    ),
    Code(
        code="RND212",
        title="the kernel never ends",
        sentence="bug: the kernel never ends: {detail}",
        rank=10,
        subtype="deadlock",
        at_line=True,
        prose="Every program that has not ended waits in a loop: it reads the same again, its variables repeat, and "
        "no other program is left that could change what it reads. Programs ran in turns, so each that could go on "
        "did. A loop that reads nothing and repeats itself is such a loop as well.",
        maths="state(p, t + 1) = state(p, t) for every program p that has not ended, and memory(t + 1) = memory(t)",
        example="program 1 holds lock a and spins on b, program 2 holds b and spins on a",
        steps=("look at what the named lines wait for: who should store it, and does that program wait itself?",),
        more="Locks are to be taken in one order; a barrier of n programs needs a grid of n.",
    ),
    Code(
        code="RND213",
        title="a combine function that is not associative",
        sentence="bug: the result depends on how a reduction is bracketed: {detail}",
        rank=11,
        subtype="associativity",
        at_line=True,
        prose="tl.reduce and tl.associative_scan combine elements in the grouping that a layout gives. Of elements of "
        "this run, without any rounding, two groupings give different numbers, so the result is a matter of the "
        "compiler's choice and not of rounding. Both groupings are evaluated with proved bounds; they are far apart.",
        maths="f(f(x, y), z) != f(x, f(y, z))   in real arithmetic, by more than 2^-10 of the larger, for x, y, z that "
        "lie in the reduced block",
        example="f(a, b) = a / 2 + b     (a, b), (c, d) -> (a c, b + d): the addend is not scaled by c",
        steps=("carry what the merge needs along (a count, a scale, a maximum), so that groups can be merged",),
        more="A function that is associative up to a guard (an epsilon in a divisor) is not meant: 2^-10 is far above "
        "that.",
    ),
    Code(
        code="RND214",
        title="a reduction by a function that does not commute",
        sentence="bug: the result depends on the order of a reduction's operands: {detail}",
        rank=12,
        subtype="commutativity",
        at_line=True,
        prose="tl.reduce does not keep the order of its elements: Triton folds one bit of the index after the other, "
        "lanes by butterfly shuffles with the highest bit first, and which elements a thread holds is the layout's "
        "choice. The block of this run was reduced in two such orders without any rounding, with proved bounds, and "
        "the results are far apart. tl.associative_scan does keep the order.",
        maths="f(f(x0, x1), f(x2, x3)) != f(f(x0, x2), f(x1, x3))   in real arithmetic, by more than 2^-10 of the "
        "larger, of the whole block",
        example="a product of 2x2 matrices, or a linear recurrence (a, b), by tl.reduce",
        steps=("take the last element of tl.associative_scan with the same function",),
        more="Where only the last or the first of some elements is wanted, carry its index and compare that.",
    ),
)
