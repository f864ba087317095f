"""Codes of a Type-I: which error makes the outputs differ, or that the reference carries it."""

from __future__ import annotations

from render.result.codes.row import Code

_SENTENCE = "round-off explains every difference"

TYPE_I = (
    Code(
        code="RND100",
        title="equal in every bit",
        sentence="kernel and reference are equal in every bit",
        rank=8,
        subtype="equal",
        prose="Every output, as the re-execution computed it (and the device's, where one is given), has the bits of "
        "the reference's: there is no difference to explain. Nothing that was looked at besides speaks against it.",
        maths="y = y_ref for every element, NaN with NaN and each zero with its sign",
        example="a transpose, a gather, tl.maximum of two float32 blocks; a sum that torch adds in the same order",
        more="Nothing to do. Inputs that are less special (not small integers) test more.",
    ),
    Code(
        code="RND101",
        title="inputs rounded to TF32",
        sentence=_SENTENCE,
        rank=3,
        causes=("operand",),
        at_line=True,
        prose="On NVIDIA GPUs since Ampere, tl.dot of float32 blocks uses TF32 tensor cores unless told otherwise. "
        "TF32 keeps float32's range but only 10 mantissa bits, so both operands lose 13 bits before they are "
        "multiplied. This loss owns most of the bound: the difference is explained by it.",
        maths="|tf32(x) - x| <= 2^-11 |x| to nearest, < 2^-10 |x| truncated (the hardware may do either)\n"
        "|dot - exact| <= 2^-9 sum |a_i||b_i| + accumulation error (RND102)",
        example="o = tl.dot(x, y)                            # float32 blocks: TF32 operands\n"
        'o = tl.dot(x, y, input_precision="ieee")    # full float32',
        steps=('input_precision="ieee" in tl.dot keeps all bits of the operands',),
        more='"tf32x3" keeps most of them at a lower price. Where the loss does not matter, test with the tolerance '
        "that the verdict prints.",
    ),
    Code(
        code="RND102",
        title="accumulation order",
        sentence=_SENTENCE,
        rank=6,
        causes=("accumulation", "atomics"),
        at_line=True,
        prose="A sum of many terms is rounded after every addition, and a GPU adds in an order of its own: per "
        "thread, then across the warp, then across warps, or in blocks inside a tensor core. The reference adds in "
        "another order. Both are right; the bound covers every order.",
        maths="|fl(sum x_i) - sum x_i| <= ((1 + u)^(n-1) - 1) sum |x_i|      any order, n addends, u = 2^-24 for fp32\n"
        "tensor cores: u becomes theta per block of L products         (block-FMA model of the device profile)",
        example="x = [2**24, 1, -2**24]      # float32\n(x[0] + x[1]) + x[2] = 0    but    (x[0] + x[2]) + x[1] = 1",
        steps=("an accumulator of higher precision, or splitting the sum, narrows the bound",),
        more="Nothing is wrong. Where terms cancel, relative error is unbounded: compare with an absolute tolerance.",
    ),
    Code(
        code="RND103",
        title="low-precision accumulator",
        sentence=_SENTENCE,
        rank=2,
        causes=("lowacc",),
        at_line=True,
        prose="A sum is kept in fewer bits than float32: a float16 or bfloat16 accumulator, a tl.sum over a float16 "
        "block (Triton does not widen it), or the 13-bit partial sums of fp8 tensor cores on Ada and Hopper. It is "
        "the author's choice, so it is Type-I, but its price is often far higher than expected.",
        maths="|fl(sum x_i) - sum x_i| <= ((1 + u)^(n-1) - 1) sum |x_i|      u = 2^-11 fp16, 2^-8 bf16\n"
        "fp8 on sm_89/sm_90: terms aligned to 13 fraction bits, one rounding of 2^-13 per block",
        example="fp16: 2048 + 1 = 2048, for ever: a sum of ones stops at 2048",
        steps=("accumulate in float32 and cast once at the end",),
        more="That is x.to(tl.float32) before tl.sum, or out_dtype=tl.float32 in tl.dot; for fp8, a lower "
        "max_num_imprecise_acc.",
    ),
    Code(
        code="RND104",
        title="rounding of a cast",
        sentence=_SENTENCE,
        rank=4,
        causes=("cast", "input"),
        at_line=True,
        prose="A value is converted to a format with fewer bits: at the end of the kernel to the output's dtype, or "
        "in between (as flash attention casts its probabilities before the second product). One such rounding owns "
        "most of the bound. Literals and arguments that are rounded to their format count as casts.",
        maths="|cast(x) - x| <= max(u |x|, 2^(emin - p))                     round to nearest\n"
        "                                                             fp16 u = 2^-11, bf16 u = 2^-8, e4m3 u = 2^-4\n"
        "the second term is the subnormal range: fp16 2^-25",
        example="bfloat16(1.01) = 1.0078125          float16(1e-6) = 1.01328e-06 (1.3 % off: subnormal)",
        steps=("cast later, or keep intermediate results in float32",),
        more="Where the output's own dtype is the cast, compare with a tolerance of one unit of that dtype.",
    ),
    Code(
        code="RND105",
        title="error of an approximate function",
        sentence=_SENTENCE,
        rank=5,
        causes=("function",),
        at_line=True,
        prose="exp, log, sin, division and friends run as short instruction sequences with a documented error of a "
        "few units in the last place, while the reference uses another library. The bound adds the documented error "
        "of the device profile.",
        maths="computed f(x) lies in f(x) (1 +- r) +- a, r and a from the device profile (see `render ops`)\n"
        "exp(x) is ex2(fl(x log2 e)): r grows with |x|, r(x) = expm1(|x| (2^-24 + 1.335e-8)) + 2.5 * 2^-23",
        example="tl.exp(-80.0) may be 60 units in the last place away from e^-80 and still be as specified",
        steps=("use the precise form of the function (for example tl.math.div_rn, tl.sqrt_rn)",),
        more="Nothing is wrong. For exp, keep arguments small: subtract the maximum first.",
    ),
    Code(
        code="RND106",
        title="rounding of elementwise arithmetic",
        sentence=_SENTENCE,
        rank=7,
        causes=("arith",),
        at_line=True,
        prose="Each + - * rounds once, in the order in which the kernel writes them; the reference writes another form "
        "of the same formula, or rounds elsewhere.",
        maths="fl(a op b) = (a op b)(1 + d), |d| <= u",
        example="(a + b) + c   and   a + (b + c)   differ by up to u (|a + b| + |b + c|)",
        steps=("write both sides in one order, or compare with the tolerance that the verdict prints",),
        more="Nothing is wrong. Where the sum cancels, compare with an absolute tolerance.",
    ),
    Code(
        code="RND107",
        title="rounding of low-precision arithmetic",
        sentence=_SENTENCE,
        rank=13,
        causes=("narrow",),
        at_line=True,
        prose="Arithmetic on float16 or bfloat16 blocks: Triton computes it in float32 and rounds the result of every "
        "single operation to the narrow format, 2^13 or 2^16 times coarser. The reference rounds fewer of them, or "
        "others.",
        maths="fl(a op b) = (a op b)(1 + d), |d| <= u,   u = 2^-11 fp16, 2^-8 bf16",
        example="x = tl.load(p)        # bfloat16\ny = x * x + x         # two roundings of 2^-8, not one",
        steps=("x.to(tl.float32) after the load, and one cast at the store",),
    ),
    Code(
        code="RND108",
        title="a product fused into a sum, or not",
        sentence=_SENTENCE,
        rank=11,
        causes=("contraction",),
        at_line=True,
        prose="The compiler may contract a multiplication and the addition behind it into one fma, which rounds once "
        "instead of twice. Which it does depends on version and target, so the bound covers both; here the rounding of "
        "such a product is what makes the outputs differ.",
        maths="a*b + c: rounded after the product and the sum, or once;   difference up to u |a b|",
        example="a = 1 + 2^-12, c = -(1 + 2^-11)   (float32)\nfma(a, a, c) = 2^-24    but    fl(fl(a*a) + c) = 0",
        steps=("tl.fma where it is to be fused; where the sum cancels, compare with an absolute tolerance",),
        more="Nothing is wrong: the bound covers a fused multiply-add and the two separate roundings alike.",
    ),
    Code(
        code="RND109",
        title="a step that rounding decides",
        sentence=_SENTENCE,
        rank=12,
        causes=("jump",),
        at_line=True,
        prose="A floor, a conversion to integers, a comparison: the value before it lies so close to the step that "
        "round-off decides the side. Both sides of the step are legal results, and the bound holds both.",
        maths="floor(x) for x in [lo, hi], lo < n <= hi:   n - 1 or n",
        example="q = tl.floor(x * 12.7)      # x * 12.7 = 5 +- 2^-22: 4 or 5",
        steps=("compare what stands before the step, or count the elements that differ by one step",),
    ),
    Code(
        code="RND110",
        title="the reference carries the error",
        sentence="the kernel is within its bound; the reference carries the error",
        rank=1,
        prose="The reference's own output lies outside the kernel's bound, yet the reference recomputed in float64 "
        "lies inside it, and the reference's rounding at its dtype explains the gap. The kernel is the more accurate "
        "of the two.",
        maths="y_ref not in T,   E in T,   |y_ref - E| <= R    (R: rounding error bound of the reference at its dtype)",
        example="kernel: layer norm in float32         reference: the same formula evaluated in float16",
        steps=("compute the reference in float64 and cast the result",),
    ),
    Code(
        code="RND111",
        title="less exact than it could be",
        sentence="round-off, but more of it than needed: {detail}",
        rank=9,
        subtype="degraded",
        at_line=True,
        prose="Every difference is round-off, and fewer than half of the digits that the conditioning allows are lost, "
        "but more than a careful implementation of the reference's formula loses: a difference of nearly equal "
        "numbers, say, at the line named. Nothing is wrong yet; for other inputs the same line may lose everything "
        "(RND206). Sums that are kept in fewer bits than float32 are the other case: a short accumulator, or partial "
        "sums that are stored short before they are added up. Many elements are then further off than float32 sums and "
        "one rounding typically are, and few of the reference's.",
        maths="8 < eta < sqrt(|E| / D):   eta = |y - E| / D,   D = first-order error of the reference's own formula "
        "with one rounding per input and operation\nshort sums: |y - E| > u |E| + 6 sd of the declared precision, in "
        "1 % of the elements at least",
        example="y = tl.exp(x) - 1          # at x = 0.01: 2 of 7 digits\ny = libdevice.expm1(x)     # all of them",
        steps=(
            "use the stable form where the digits matter (expm1, log1p, two passes, a maximum taken out)",
            "keep sums and partial sums in float32: `render accum` says how many bits suffice",
        ),
    ),
    Code(
        code="RND120",
        title="round-off if roundings fall independently",
        sentence="probably round-off: {detail}",
        rank=14,
        subtype="probabilistic",
        prose="The rigorous bound is so wide at the elements that differ that it proves nothing (else RND301). The "
        "probabilistic band is not: six standard deviations of all roundings behind an element, each with its signed "
        "first-order weight, through earlier launches too, hold what kernel and reference returned, and without any "
        "rounding the two compute the same. That roundings are independent is an assumption; it fails where a sum "
        "stagnates (all terms positive in a short accumulator), and then errors leave the band. What lies outside a "
        "bound is never explained so.",
        maths="|y - E| <= 6 sqrt(sum_i w_i^2 s_i^2) + |sum_i w_i m_i| + one rounding of the output\n"
        "w_i = d y / d v_i,   s_i^2 = (2 h_i)^2 / 12 for a rounding to a spacing of 2 h_i,   m_i: what a unit cuts",
        example="a dot of 4096 terms in a float16 accumulator: the bound is 5000 standard deviations wide",
        steps=("accumulate in float32: the rigorous bound then says something",),
        more="Coverage on simulated roundings: docs/tightness.md. A Type-I of this code is an estimate; "
        "`evidence` of the verdict says so.",
    ),
)
