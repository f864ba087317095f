"""The table of rule codes: what each RND code means, why it can be believed, an example and what to do next.

Codes are stable for ever: one that is retired is never used for something else. Text is plain ASCII, because it is
shown in terminals, logs and web pages alike. Symbols used throughout:

    T = [lo, hi]  envelope of one output element: every value that a legal execution may produce
    y_ref         what the reference returned
    E             the reference recomputed in float64 from the same inputs
    y_dev         the recorded device output, where one was given
    u             unit roundoff of a format: 2^-24 fp32, 2^-11 fp16, 2^-8 bf16, 2^-11 tf32 (2^-10 if truncated)

Sources of the constants: PTX ISA 8 (ex2.approx, div.full, cvt), CUDA C Programming Guide table 17, IEEE 754-2019,
Higham, Accuracy and Stability of Numerical Algorithms (2nd ed.), sections 3.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FAMILIES: dict[str, str] = {
    "1": "Type-I, cause of the width",
    "2": "Type-II",
    "3": "Inconclusive",
    "9": "usage",
}


@dataclass(frozen=True, slots=True)
class Code:
    """One rule code. `title` completes the sentence of a verdict line; the other fields are shown by `explain`."""

    code: str
    title: str
    prose: str
    maths: str
    example: str
    help: str

    @property
    def family(self) -> str:
        return FAMILIES[self.code[3]]


class UnknownCode(LookupError):
    """The text is no rule code."""


_TABLE = (
    Code(
        "RND100",
        "no rounding anywhere: the results are exact",
        "Every step of the kernel is exact for these inputs (copies, integers, comparisons, sums without rounding), so "
        "the bound is a single point and the reference meets it.",
        "lo = hi = y for every element",
        "a transpose, a gather, tl.maximum of two float32 blocks",
        "Nothing to do. Inputs that are less special (not small integers) test more.",
    ),
    Code(
        "RND101",
        "inputs rounded to TF32",
        "On NVIDIA GPUs since Ampere, tl.dot of float32 blocks uses TF32 tensor cores unless told otherwise. TF32 "
        "keeps float32's range but only 10 mantissa bits, so both operands lose 13 bits before they are multiplied. "
        "This loss owns most of the bound: the difference is explained by it.",
        "|tf32(x) - x| <= 2^-11 |x| to nearest, < 2^-10 |x| truncated (the hardware may do either)\n"
        "|dot - exact| <= 2^-9 sum |a_i||b_i| + accumulation error (RND102)",
        "o = tl.dot(x, y)                            # float32 blocks: TF32 operands\n"
        'o = tl.dot(x, y, input_precision="ieee")    # full float32',
        'If the loss matters, write input_precision="ieee" (exact operands) or "tf32x3"; if not, test with the '
        "absolute tolerance that the verdict prints.",
    ),
    Code(
        "RND102",
        "accumulation order",
        "A sum of many terms is rounded after every addition, and a GPU adds in an order of its own: per thread, then "
        "across the warp, then across warps, or in blocks inside a tensor core. The reference adds in another order. "
        "Both are right; the bound covers every order.",
        "|fl(sum x_i) - sum x_i| <= ((1 + u)^(n-1) - 1) sum |x_i|      any order, n addends, u = 2^-24 for fp32\n"
        "tensor cores: u becomes theta per block of L products         (block-FMA model of the device profile)",
        "x = [2**24, 1, -2**24]      # float32\n(x[0] + x[1]) + x[2] = 0    but    (x[0] + x[2]) + x[1] = 1",
        "Nothing is wrong. Where terms cancel, relative error is unbounded: compare with an absolute tolerance.",
    ),
    Code(
        "RND103",
        "low-precision accumulator",
        "A sum is kept in fewer bits than float32: a float16 or bfloat16 accumulator, a tl.sum over a float16 block "
        "(Triton does not widen it), or the 13-bit partial sums of fp8 tensor cores on Ada and Hopper. It is the "
        "author's choice, so it is Type-I, but its price is often far higher than expected.",
        "|fl(sum x_i) - sum x_i| <= ((1 + u)^(n-1) - 1) sum |x_i|      u = 2^-11 fp16, 2^-8 bf16\n"
        "fp8 on sm_89/sm_90: terms aligned to 13 fraction bits, one rounding of 2^-13 per block",
        "fp16: 2048 + 1 = 2048, for ever: a sum of ones stops at 2048",
        "Accumulate in float32 (x.to(tl.float32) before tl.sum, out_dtype=tl.float32 in tl.dot) and cast once at the "
        "end; for fp8, lower max_num_imprecise_acc.",
    ),
    Code(
        "RND104",
        "cast",
        "A value is converted to a format with fewer bits: at the end of the kernel to the output's dtype, or in "
        "between (as flash attention casts its probabilities before the second product). One such rounding owns most "
        "of the bound.",
        "|cast(x) - x| <= max(u |x|, 2^(emin - p))                     round to nearest\n"
        "                                                             fp16 u = 2^-11, bf16 u = 2^-8, e4m3 u = 2^-4\n"
        "the second term is the subnormal range: fp16 2^-25",
        "bfloat16(1.01) = 1.0078125          float16(1e-6) = 1.01328e-06 (1.3 % off: subnormal)",
        "Cast later, or compare with a tolerance of one unit of the output's dtype.",
    ),
    Code(
        "RND105",
        "error of an approximate function",
        "exp, log, sin, division and friends run as short instruction sequences with a documented error of a few "
        "units in the last place, while the reference uses another library. The bound adds the documented error of "
        "the device profile.",
        "computed f(x) lies in f(x) (1 +- r) +- a, r and a from the device profile (see `render ops`)\n"
        "exp(x) is ex2(fl(x log2 e)): r grows with |x|, r(x) = expm1(|x| (2^-24 + 1.335e-8)) + 2.5 * 2^-23",
        "tl.exp(-80.0) may be 60 units in the last place away from e^-80 and still be as specified",
        "Nothing is wrong. For division, tl.div_rn is correctly rounded; for exp, keep arguments small (subtract the "
        "maximum first).",
    ),
    Code(
        "RND106",
        "rounding of elementwise arithmetic (with or without fma)",
        "Each + - * rounds once, and the compiler may contract a multiplication and an addition into one fma that "
        "rounds once instead of twice. Which it does depends on version and target, so the bound covers both.",
        "fl(a op b) = (a op b)(1 + d), |d| <= u;      a*b + c: rounded after the product and the sum, or once",
        "a = 1 + 2^-12, c = -(1 + 2^-11)   (float32)\nfma(a, a, c) = 2^-24    but    fl(fl(a*a) + c) = 0",
        "Nothing is wrong. Where the sum cancels, compare with an absolute tolerance.",
    ),
    Code(
        "RND110",
        "the reference carries the error",
        "The reference's own output lies outside the kernel's bound, yet the reference recomputed in float64 lies "
        "inside it, and the reference's rounding at its dtype explains the gap. The kernel is the more accurate of "
        "the two.",
        "y_ref not in T,   E in T,   |y_ref - E| <= R      (R: rounding error bound of the reference at its dtype)",
        "kernel: layer norm in float32         reference: the same formula evaluated in float16",
        "Evaluate the reference in float32 or float64 before you compare.",
    ),
    Code(
        "RND201",
        "the kernel computes something else than the reference",
        "The reference, recomputed in float64 so that it carries no rounding of its own, lies outside the envelope of "
        "the kernel. No order of summation, no rounding, no contraction that the device allows leads from one to the "
        "other: the two formulas differ. (Either one may be the wrong one.)",
        "E not in T, beyond E's own error bound.      T contains the exact value of the kernel's formula by "
        "construction, so the formulas differ.",
        "a missing scale, a dropped last block of K, swapped strides, a mask that is off by one",
        "Start at the element with the largest excess: which inputs did it read? Check masks, strides and the loop's "
        "trip count, then check that the reference means the same operation.",
    ),
    Code(
        "RND202",
        "the device output is outside, the reference inside",
        "The source of the kernel is fine: its envelope contains the reference. The output that was recorded on the "
        "device is outside the envelope. Something below the source went wrong: a compiler defect, a race between "
        "warps, a launch with other arguments, or hardware.",
        "E in T,   y_dev not in T",
        "a bfloat16 tl.dot on sm_70 that an old Triton compiled to a float16 instruction",
        "Check that the recorded output belongs to these inputs; then try another Triton version, num_warps=1, "
        "num_stages=1, and run twice: results that change point at a race.",
    ),
    Code(
        "RND204",
        "the NaN/Inf pattern differs",
        "The reference (or the device) has a NaN or an infinity where the kernel can produce none, or the other way "
        "round. NaN never counts as inside a bound.",
        "isnan(E[i]) while T[i] has no NaN, or T[i] is exactly NaN/Inf while E[i] is finite",
        "a softmax row that is masked completely: max = -inf, and -inf - (-inf) = NaN",
        "Look at the first such element: an empty row, a division by zero, exp of a large number, a load whose "
        "masked lanes have no `other`.",
    ),
    Code(
        "RND205",
        "shape or dtype differs, or output elements are never stored",
        "Kernel and reference cannot be compared element by element, or some elements of an output were never "
        "written by any program.",
        "shape(y) != shape(y_ref), or some i: no program stores y[i]",
        "grid = (n // BLOCK,)      # the last n % BLOCK elements are never stored: use triton.cdiv(n, BLOCK)",
        "Compare the grid and the store mask with the output's shape.",
    ),
    Code(
        "RND206",
        "numerically unstable implementation",
        "Everything is inside the envelope, but only because the kernel's own error is enormous: far more than the "
        "conditioning of the problem and one rounding of the output explain, while the reference does not suffer. A "
        "better algorithm for the same function exists.",
        "eta = |y - E| / (u (|E| + effect of perturbing the inputs by u)) > 8 for the kernel and not for the reference",
        "var = tl.sum(x*x)/n - mean*mean     # cancels when |mean| is large\n"
        "var = tl.sum((x-mean)*(x-mean))/n   # stable",
        "Rewrite the step that cancels: two-pass variance, softmax with the maximum subtracted, expm1, log1p.",
    ),
    Code(
        "RND207",
        "the kernel accesses memory outside every known tensor",
        "An active lane of a load or a store has an address outside the tensor that its pointer comes from. On a GPU "
        "that reads whatever is there, or faults. No interval is given for elements that depend on such a read.",
        "base <= address < base + bytes is violated for a lane whose mask is true",
        "x = tl.load(x_ptr + offs)                       # offs reaches beyond n\n"
        "x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)",
        "Check the mask, the strides (are two swapped?) and the shape of the tensor named in the finding.",
    ),
    Code(
        "RND208",
        "never-written memory reaches an output",
        "The kernel reads memory that nothing has written since it was allocated, and the result depends on it. It "
        "may hold zeros today and garbage tomorrow.",
        "an output element depends on a byte that neither the host nor a kernel has written",
        "out = torch.empty(n)      # then tl.atomic_add(out_ptr + i, v): use torch.zeros(n)",
        "Allocate with torch.zeros, or store before you load.",
    ),
    Code(
        "RND209",
        "programs store different values to one address",
        "Two program instances (or two lanes of one store) write different values to the same address without an "
        "atomic. Which one survives depends on timing.",
        "store(p, address, v) and store(q, address, w), p != q, v != w, without synchronisation",
        "each program of a split reduction stores its partial sum to out[0] instead of using tl.atomic_add",
        "Use tl.atomic_add, give each program its own slot and reduce afterwards, or repair the index arithmetic.",
    ),
    Code(
        "RND210",
        "the ring lane differs: not the same algebra (advisory)",
        "Kernel and reference were also evaluated in integers modulo 2^w, where + and * are exact in any order. They "
        "differ there, so they are not the same polynomial of the inputs. This is a hint and never decides a label.",
        "f_kernel(x) != f_ref(x) in Z / 2^w for random x",
        "a bug of 1 ulp hides inside a wide interval, but not in the ring",
        "Compare the formulas. Division, exp and friends have no ring meaning and are treated as opaque symbols.",
    ),
    Code(
        "RND211",
        "another function, hidden by a wide bound",
        "The exact value of the reference lies in the bound, but the bound is wide, and without any rounding the two "
        "sides still differ: the kernel was run once more with every error silent, which leaves the exact value of its "
        "formula, and that is not the reference's. Roundings of constants and inputs do not explain it, an output "
        "shows it, and a second evaluation of the element agrees. (Either side may be the wrong one.)",
        "|F - E| > s    F, E: kernel and reference without rounding;  s = 2^-20 (|E| + sum_i |dE/dx_i| |x_i|)\n"
        "|F - E| > u |E|    u: unit roundoff of the output's format (smaller differences are told, not judged)",
        "block-scaled fp8: the scale of the second operand is not advanced along K; the scales differ by 5 %, the fp8 "
        "casts allow 6 %",
        "Compare constants, scales, masks and loop bounds of the two. A deliberate approximation differs as well: make "
        "the reference compute the same one.",
    ),
    Code(
        "RND301",
        "the bound has little discriminating power",
        "Everything is inside the envelope, but the envelope is so wide that a plainly wrong output (zeros, or a "
        "dropped block of K) would be inside as well. 'Type-I' would say nothing.",
        "power = #(seeded faults outside T) / #(seeded faults that change the result by more than one rounding)\n"
        "not conclusive if zeros lie in T, or (with --power) if power < 1/2: most faults would pass for round-off",
        "a float16 sum of 4096 terms: the order-free bound is as large as the sum itself",
        "Try inputs of smaller size, larger magnitude or one sign, a sharper --device profile, or float32 "
        "accumulation.",
    ),
    Code(
        "RND302",
        "unsupported operation, or another taint, reaches the output",
        "The result depends on a step for which no sound rule exists: an operation that is not supported yet, inline "
        "assembly, the bits of a float used as an integer, an address that rounding decides. Nothing was guessed, so "
        "nothing can be concluded.",
        "taint(y[i]) is not empty: operation and line are named in the verdict",
        "bits = x.to(tl.int32, bitcast=True)      # x carries an interval, its bits do not",
        "See `render ops` for what is supported; rewrite the step, or classify the parts before and after it.",
    ),
    Code(
        "RND303",
        "a branch condition spans the interval",
        "A Python-level `if`, a loop bound or an address depends on a float whose interval straddles the decision. "
        "One legal execution goes one way, another the other way; only one was followed.",
        "cond(x) is true for some x in [lo, hi] and false for others",
        "if tl.max(x) > 1.0: ...      # tl.max(x) in [0.9999999, 1.0000001]",
        "Use tl.where (both sides are enclosed), or inputs that stay away from the threshold.",
    ),
    Code(
        "RND304",
        "overflow is possible, the bound is infinite",
        "Some legal execution overflows, or may divide by zero, so the envelope is infinite and contains everything.",
        "|S| + bound >= max of the format      (65504 for fp16, 3.4e38 for fp32, 448 for e4m3)",
        "a float16 accumulator whose partial sums may pass 65504; exp of an argument above 88.7",
        "Scale the inputs, accumulate in float32, subtract the maximum before exp.",
    ),
    Code(
        "RND305",
        "the result depends on the order of atomics",
        "What an atomic returns, or a plain load of memory that other programs of the launch update, depends on "
        "timing, and the result uses it. The envelope covers one order only.",
        "y = f(old) with old = atomic(...): old depends on the order of the programs",
        "slot = tl.atomic_add(counter, 1); tl.store(out + slot, v)      # a permutation per run",
        "Compare an order-free property instead (sort both sides), or make the order part of the kernel.",
    ),
    Code(
        "RND306",
        "a second evaluation does not confirm the bound",
        "The value lies outside the bound, but the same element, evaluated again from its loads by slow and simple "
        "code (render.witness), does reach it. One of the two evaluations is wrong: our defect, not the kernel's.",
        "y not in T, but y in W: W from mpmath, one plain formula per operation, the same figures of the target",
        "a rule of the interval engine that leaves out a rounding",
        "Please report it, with the JSON of the verdict: it holds the whole computation of the element.",
    ),
    Code(
        "RND307",
        "exact value of the reference not known well enough",
        "The reference cancels or amplifies so much that float64 does not give its exact value well enough to be "
        "inside or outside of the envelope, and more bits could not be had: an operation has no rule there, a decision "
        "inside depends on the error, or it would take too much work. The verdict names which.",
        "s > max(half width of T, one rounding of the output),  E +/- s neither inside T nor clear of it\n"
        "s: the error of E in up to 1024 bits, where these can be had, else that of float64",
        "torch.svd of a float64 matrix: float64 is as inexact as the kernel, and it has no rule in more bits",
        "Write the reference in a stable form (shifted variance, logsumexp), or with operations that have a rule; "
        "smaller inputs take less work. Without python-flint installed, far less can be evaluated.",
    ),
    Code(
        "RND308",
        "no second evaluation of the bound could be made",
        "The value lies outside the bound, which makes it a bug (RND201, RND202 or RND204, as the verdict says), but a "
        "bound alone accuses nobody: the element has to be evaluated again by other code, and that could not be done. "
        "The reason stands in the verdict: an operation that the second evaluation does not know, a run that cannot be "
        "repeated, too large a computation. This is our defect, not the kernel's.",
        "y not in T, and there is no W to compare with",
        "a computation of more than ten million operands behind every element outside",
        "Try a smaller shape with the same fault, where the computation of an element is smaller; please report it.",
    ),
    Code(
        "RND901",
        "no inputs given",
        "RENDER found the function to call but does not know with which arguments.",
        "first hit wins: --inputs FILE, then --input NAME=..., then make_inputs() in FILE",
        'render classify kernel.py --input "a=randn(512,512):fp16" --input "b=randn(512,512):fp16"',
        "Paste the make_inputs() that the message prints into FILE, or give --input once per argument.",
    ),
    Code(
        "RND902",
        "kernel or reference not found",
        "FILE, the function to call, or the reference cannot be found or imported, or more than one function "
        "launches a kernel.",
        "target: --entry NAME, else the one function in FILE that launches a kernel\n"
        "reference: --ref dotted.path | module:attr | file.py::fn | name in FILE, else reference() in FILE",
        "render classify kernel.py --entry matmul --ref torch.matmul",
        "Name the target with --entry and the reference with --ref.",
    ),
    Code(
        "RND903",
        "outputs cannot be matched",
        "The outputs of the kernel, of the reference or of the recorded file do not correspond: another number, or "
        "names that appear on one side only.",
        "outputs are what the entry returns, else the tensors that the kernel stored to, by argument name",
        "the entry returns (out, lse), the reference returns out only",
        "Return the same outputs from both, or a dict with the same keys.",
    ),
    Code(
        "RND904",
        "nothing was launched",
        "The function ran to its end without launching a Triton kernel, so there is nothing to judge.",
        "number of launches = 0",
        "def entry(a, b): return torch.matmul(a, b)      # a fallback path was taken",
        "Check the path that these inputs take through the launcher, or name another function with --entry.",
    ),
)

CODES: dict[str, Code] = {entry.code: entry for entry in _TABLE}


def find(text: str) -> Code:
    """The code written as `RND101`, `rnd101` or `101`; raises UnknownCode otherwise."""
    name = text.strip().upper()
    name = name if name.startswith("RND") else f"RND{name}"
    try:
        return CODES[name]
    except KeyError:
        raise UnknownCode(f"{text!r} is no rule code") from None


def title(code: str) -> str:
    """The title of `code`, or nothing where a newer release wrote the report."""
    entry = CODES.get(code)
    return entry.title if entry else ""


def by_family() -> Iterable[tuple[str, list[Code]]]:
    """(family name, its codes), in the order of the table."""
    for digit, name in FAMILIES.items():
        yield name, [entry for entry in _TABLE if entry.code[3] == digit]
