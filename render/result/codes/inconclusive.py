"""Codes of an Inconclusive: why nothing can be said."""

from __future__ import annotations

from render.result.codes.row import Code

_DEFECT = "a defect of RENDER, not of your kernel: {detail}"

INCONCLUSIVE = (
    Code(
        code="RND301",
        title="the bound cannot tell round-off from a bug",
        sentence="cannot tell: {detail}",
        rank=8,
        subtype="power",
        prose="Everything is inside the envelope, but the envelope is so wide that a plainly wrong output (zeros, or a "
        "dropped block of K) would be inside as well: 'Type-I' would say nothing. Or kernel and reference differ "
        "without any rounding, and how much of that the inputs explain could only be estimated.",
        maths="power = #(seeded faults outside T) / #(seeded faults that change the result by more than one rounding)\n"
        "not conclusive if zeros lie in T, or (with --power) if power < 1/2: most faults would pass for round-off",
        example="a float16 sum of 4096 terms: the order-free bound is as large as the sum itself",
        steps=("use a device profile with a known accumulator (--device), or inputs without cancellation",),
        more="Inputs of smaller size, of larger magnitude or of one sign narrow the bound, too, as does accumulation "
        "in float32.",
    ),
    Code(
        code="RND302",
        title="a step without a sound bound reaches the output",
        sentence="cannot tell: {detail}",
        rank=1,
        subtype="taint",
        at_line=True,
        prose="The result depends on a step for which no sound rule exists: an operation that is not supported yet, "
        "inline assembly, the bits of a float used as an integer, an address or an index that rounding decides, a "
        "reference that its own rounding does not explain. Nothing was guessed, so nothing can be concluded.",
        maths="taint(y[i]) is not empty: operation and line are named in the verdict",
        example="bits = x.to(tl.int32, bitcast=True)      # x carries an interval, its bits do not",
        steps=(
            "make its result an input, or use an operation that `render ops` lists",
            "where a tie is open, inputs without ties decide it",
        ),
        more="Rewrite the step, or classify the parts before and after it.",
    ),
    Code(
        code="RND303",
        title="rounding decides a branch or a mask",
        sentence="cannot tell: {detail}",
        rank=2,
        subtype="taint",
        at_line=True,
        prose="A Python-level `if`, a loop bound, a mask or a select of pointers depends on a float whose interval "
        "straddles the decision. One legal execution goes one way, another the other way; only one was followed.",
        maths="cond(x) is true for some x in [lo, hi] and false for others",
        example="if tl.max(x) > 1.0: ...      # tl.max(x) in [0.9999999, 1.0000001]",
        steps=("choose inputs away from the threshold of the condition",),
        more="Or use tl.where of values: both sides are enclosed.",
    ),
    Code(
        code="RND304",
        title="the bound is infinite: overflow or a division by zero is possible",
        sentence="cannot tell: the bound is infinite (overflow, or a division by zero)",
        rank=4,
        subtype="overflow",
        prose="Some legal execution overflows, or may divide by zero, so the envelope is infinite and contains "
        "everything.",
        maths="|S| + bound >= max of the format      (65504 for fp16, 3.4e38 for fp32, 448 for e4m3)",
        example="a float16 accumulator whose partial sums may pass 65504; exp of an argument above 88.7",
        steps=("scale the inputs down, or accumulate in a wider format",),
        more="Before exp, subtract the maximum.",
    ),
    Code(
        code="RND305",
        title="the result depends on the order of programs",
        sentence="cannot tell: {detail}",
        rank=3,
        subtype="taint",
        at_line=True,
        prose="What an atomic returns, or a plain load of memory that other programs of the launch update, depends on "
        "timing, and the result uses it. The envelope covers one order only. So does a load of what another thread of "
        "the same program stored without a barrier between, or a store to what another thread loaded or gave another "
        "number: Triton puts none between accesses of global memory.",
        maths="y = f(old) with old = atomic(...): old depends on the order of the programs",
        example="slot = tl.atomic_add(counter, 1); tl.store(out + slot, v)      # a permutation per run",
        steps=("make the order explicit (a second kernel, atomics on integers, tl.debug_barrier() in one program)",),
        more="Or compare a property that no order changes: sort both sides.",
    ),
    Code(
        code="RND306",
        title="a second evaluation does not confirm the bound",
        sentence="cannot tell: {detail}",
        rank=5,
        subtype="defect",
        prose="The value lies outside the bound, but the same element, evaluated again from its loads by slow and "
        "simple code (render.witness), does reach it. That code follows what operands share to first order only, so "
        "that behind long computations it may reach more than the kernel can; or the bound is too narrow, a defect of "
        "ours. Which of the two is not known, so nobody is accused.",
        maths="y not in T, but y in W: W from one plain formula per operation, then from affine forms, with the same "
        "figures of the target",
        example="a rule of the interval engine that leaves out a rounding",
        steps=(
            "compare an earlier result of the kernel, so that less lies between it and its loads",
            "or report this with the JSON of the verdict (--json): the bound may be too narrow",
        ),
        more="The JSON holds the whole computation of the element.",
    ),
    Code(
        code="RND307",
        title="exact value of the reference not known well enough",
        sentence="cannot tell: {detail}",
        rank=7,
        subtype="reference",
        prose="The reference cancels or amplifies so much that float64 does not give its exact value well enough to be "
        "inside or outside of the envelope, and more bits could not be had: an operation has no rule there, a decision "
        "inside depends on the error, or it would take too much work. The verdict names which.",
        maths="s > max(half width of T, one rounding of the output),  E +/- s neither inside T nor clear of it\n"
        "s: the error of E in up to 1024 bits, where these can be had, else that of float64",
        example="torch.svd of a float64 matrix: float64 is as inexact as the kernel, and it has no rule in more bits",
        steps=("give a stable reference (shifted variance, logsumexp), or one of operations with a rule in more bits",),
        more="Smaller inputs take less work. Without python-flint installed, far less can be evaluated.",
    ),
    Code(
        code="RND308",
        title="no second evaluation of the bound could be made",
        sentence=_DEFECT,
        rank=6,
        subtype="defect",
        prose="The value lies outside the bound, which makes it a bug (RND201, RND202 or RND204, as the verdict says), "
        "but a bound alone accuses nobody: the element has to be evaluated again by other code, and that could not be "
        "done. The reason stands in the verdict: an operation that the second evaluation does not know, a run that "
        "cannot be repeated, too large a computation. This is our defect, not the kernel's.",
        maths="y not in T, and there is no W to compare with",
        example="a computation of more than ten million operands behind every element outside",
        steps=(
            "please report this with the JSON of the verdict (--json): the bound says bug, nothing confirms it",
            "a smaller shape with the same fault, or another output, may have a second evaluation",
        ),
    ),
    Code(
        code="RND309",
        title="the run was given up: more work than the budget",
        sentence="cannot tell: {detail}",
        rank=9,
        subtype="budget",
        prose="A launch may take a counted number of steps (turns of loops, passes over the kernel's body) and lanes. "
        "This one took all of them, or what it did so far shows that the rest is far out of reach. The verdict says "
        "which program it was in and at which line. Programs that do nothing but wait for each other for 2^16 turns "
        "are given up as well, where a count of the turns may end the wait some time. No clock takes part.",
        maths="steps + lanes / 2^17 >= 2^21",
        example="a grid of 2^31 programs; while i >= 0: i += 1",
        steps=("look at the loop that is named: can it end?", "try a smaller shape: fewer programs, fewer turns"),
    ),
    Code(
        code="RND310",
        title="a tensor that a kernel stored to was not compared",
        sentence="cannot tell: {detail}",
        rank=10,
        subtype="scope",
        prose="What was compared is in order, but a kernel also stored to a tensor that the caller can see (an "
        "argument, a gradient, a further result) and that nothing was compared with: the reference does not give it, "
        "nobody read it afterwards, and its values are no steps on the way to what was compared. It may be wrong.",
        maths="stored(t),  t visible to the caller,  no y_ref for t,  no later read of t",
        example="a backward kernel that returns dx and adds to dw in place, against a reference that gives dx",
        steps=("let the reference give this tensor too, under the same name or in the same place",),
    ),
    Code(
        code="RND311",
        title="undefined lanes of a masked load reach an output",
        sentence="cannot tell: {detail}",
        rank=11,
        subtype="undefined",
        at_line=True,
        prose="A load with a mask and without `other` leaves the lanes that are masked off undefined. NVIDIA's and "
        "AMD's compilers put zeros there, which the language does not promise. The kernel was run again with other "
        "numbers in these lanes, and an output changed: its result rests on what the compiler happens to fill in. "
        "Under a named NVIDIA or AMD target this is told and decides nothing; under a profile for several (any) there "
        "is no Type-I.",
        maths="y(lanes = 0) != y(lanes = NaN),  or  != y(lanes = c)",
        example="x = tl.load(p + i, mask=i < n); s = tl.sum(x)      # s needs zeros in the lanes beyond n",
        steps=("give the load other=0.0 (or what the lanes are to be)", "or name the target with --device"),
    ),
    Code(
        code="RND312",
        title="the device output may belong to other inputs",
        sentence="cannot tell: {detail}",
        rank=12,
        subtype="device",
        prose="The device's output lies outside the bound, and its elements are no nearer to the values of this run "
        "than its other elements are. Random inputs that were drawn on another device's generator look like that: they "
        "are other numbers under the same seed. A kernel that writes nothing but rubbish looks the same, so without a "
        "recording of inputs and output together there is no verdict.",
        maths="#{i : |y_dev[i] - v[i]| < median_j |y_dev[j] - v[i]|},  P(K >= k | p = 1/2) > 2^-20",
        example='x = torch.randn(4096, device="cuda")    # not the numbers of torch.randn(4096) on a CPU',
        steps=(
            'on the device: render.record("run.safetensors", fn, *inputs)',
            "then render classify FILE --recording run.safetensors",
        ),
    ),
    Code(
        code="RND313",
        title="a combine function without a rule, in an order that is not known",
        sentence="cannot tell: {detail}",
        rank=13,
        subtype="taint",
        at_line=True,
        prose="tl.reduce or tl.associative_scan combines elements by a function that rounds and that is none of those "
        "with a bound for every order. What it computes depends on the order, which is not assumed to be known. The "
        "two sides were compared without rounding all the same, where orders agree then: they do not differ.",
        maths="fl f(fl f(x, y), z) != fl f(x, fl f(y, z)), and the layout decides",
        example="tl.reduce(x, 0, f)      # f(a, b) = sqrt(a * a + b * b)",
        steps=("--sum-order tree: the orders in which Triton lowers reductions, all of them",),
        more="Functions that have a bound for every order: sums, products, extremes, Welford's moments, pairs of a "
        "maximum and sums of exponentials, and what multiplies or is linear in either operand.",
    ),
    Code(
        code="RND314",
        title="only a part of the programs was run",
        sentence="nothing found: {detail}",
        rank=14,
        subtype="scope",
        prose="With --programs a part of each launch's programs runs, spread evenly over the grid, first and last "
        "among them. What they store is judged as always, and a bug in it is a bug. Of what the others store nobody "
        "knows anything, so that nothing found is no round-off yet; the scope says how many programs and elements it "
        "was.",
        maths="judged: y[i] with i stored by p in S,  S = {floor(k (n - 1) / (m - 1)) : 0 <= k < m}",
        example="a matmul of 8192^3: --programs 1% runs 41 of 4096 programs",
        steps=("leave --programs out for a verdict on all of it, or take smaller inputs",),
    ),
    Code(
        code="RND315",
        title="an input of the kernel that the reference computes itself is not exact enough to tell",
        sentence="cannot tell: {detail}",
        rank=15,
        subtype="reference",
        prose="The kernel reads an input that the reference does not: a table, a saved statistic, a scale. It stands "
        "for something that the reference computes on its way. Somebody rounded it before. Beyond its rounding the "
        "outputs differ, but not by more than if half of its digits were wrong: the input may be to blame, and not "
        "the kernel.",
        maths="E meets T(c (1 +- sqrt(u))), but not T(c (1 +- (u + 16 u32)))",
        example="rope(x, cos, sin)      # the reference computes its own cos and sin, in more bits",
        steps=("hand the reference the same input, or compute it in the wrapper, where its rounding is followed",),
    ),
    Code(
        code="RND316",
        title="an element may be any number of its type",
        sentence="cannot tell: {detail}",
        rank=16,
        subtype="taint",
        at_line=True,
        prose="In some lanes an instruction gives nothing that can be relied on: a float becomes an integer type that "
        "cannot hold it (one target wraps, another saturates), an integer is divided by zero or shifted by its width. "
        "What is stored there may be any number of its type, and is bounded as such; all other elements are judged as "
        "always, and a bug in them is a bug.",
        maths="T[i] = [-128, 127] for an int8 element i;  y = cvt(x), x not in [-128.99, 127.99]",
        example="tl.store(q + i, (x / scale).to(tl.int8))      # 127.5 + 0.5 is no int8",
        steps=("clamp before the conversion, or mask the lanes off",),
    ),
)
