"""GPU instructions that the vendor's bitcode calls, as LLVM IR for a CPU.

Correctly rounded ones are the CPU's own. An approximate one gives the exact value times 1 + lean * (its documented
error), rounded to nearest: `lean` in [-1, 1] moves all of them at once. Source of their errors: PTX ISA, the
`.approx` instructions.
"""

from __future__ import annotations

_HEAD = """
@lean = global double 0.0
declare double @exp2(double)
declare double @log2(double)
declare float @llvm.fma.f32(float, float, float)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.fabs.f64(double)
declare float @llvm.fabs.f32(float)
declare double @llvm.floor.f64(double)
declare float @llvm.floor.f32(float)
declare double @llvm.trunc.f64(double)
declare float @llvm.trunc.f32(float)
declare double @llvm.rint.f64(double)
declare float @llvm.rint.f32(float)
declare double @llvm.sqrt.f64(double)
declare float @llvm.sqrt.f32(float)
declare float @llvm.minnum.f32(float, float)
declare float @llvm.maxnum.f32(float, float)
declare double @llvm.minnum.f64(double, double)
declare double @llvm.maxnum.f64(double, double)
declare i32 @llvm.fptosi.sat.i32.f32(float)
declare i32 @llvm.fptosi.sat.i32.f64(double)
declare float @llvm.copysign.f32(float, float)

define float @ftz(float %x) alwaysinline {
  %m = call float @llvm.fabs.f32(float %x)
  %small = fcmp olt float %m, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %x)
  %y = select i1 %small, float %zero, float %x
  ret float %y
}
define double @leaning(double %x, double %error) alwaysinline {
  %lean = load double, ptr @lean
  %r = fmul double %lean, %error
  %d = fmul double %x, %r
  %y = fadd double %x, %d
  %m = call double @llvm.fabs.f64(double %x)
  %finite = fcmp olt double %m, 0x7FF0000000000000
  %z = select i1 %finite, double %y, double %x
  ret double %z
}
; moved away from zero by lean * error * 2^floor(log2 |x|)
define double @shifted(double %x, double %error) alwaysinline {
  %bits = bitcast double %x to i64
  %head = and i64 %bits, -4503599627370496
  %power = bitcast i64 %head to double
  %moved = call double @leaning(double %power, double %error)
  %d = fsub double %moved, %power
  %y = fadd double %x, %d
  %m = call double @llvm.fabs.f64(double %x)
  %finite = fcmp olt double %m, 0x7FF0000000000000
  %z = select i1 %finite, double %y, double %x
  ret double %z
}
; x + y with the last bit set where the float64 sum is inexact
define double @odd(double %x, double %y) alwaysinline {
  %s = fadd double %x, %y
  %t = fsub double %s, %x
  %u = fsub double %s, %t
  %v = fsub double %x, %u
  %w = fsub double %y, %t
  %e = fadd double %v, %w
  %exact = fcmp ueq double %e, 0.0
  %bits = bitcast double %s to i64
  %last = and i64 %bits, 1
  %odd = icmp eq i64 %last, 1
  %done = or i1 %exact, %odd
  %up = fcmp ogt double %e, 0.0
  %positive = fcmp ogt double %s, 0.0
  %grow = icmp eq i1 %up, %positive
  %step = select i1 %grow, i64 1, i64 -1
  %moved = add i64 %bits, %step
  %m = bitcast i64 %moved to double
  %y2 = select i1 %done, double %s, double %m
  ret double %y2
}
define float @down(double %x) alwaysinline {
  %f = fptrunc double %x to float
  %w = fpext float %f to double
  %above = fcmp ogt double %w, %x
  %bits = bitcast float %f to i32
  %positive = fcmp ogt float %f, 0.0
  %zero = fcmp oeq float %f, 0.0
  %step = select i1 %positive, i32 -1, i32 1
  %moved = add i32 %bits, %step
  %next = select i1 %zero, i32 -2147483647, i32 %moved
  %n = bitcast i32 %next to float
  %y = select i1 %above, float %n, float %f
  ret float %y
}
define float @chopped(double %x) alwaysinline {
  %m = call double @llvm.fabs.f64(double %x)
  %d = call float @down(double %m)
  %w = fptrunc double %x to float
  %y = call float @llvm.copysign.f32(float %d, float %w)
  ret float %y
}
"""

# Name after "llvm.nvvm.": result, kinds of the arguments %a %b %c, and the lines that compute %r. `round` is cvt.rni,
# ties to even.
_PLAIN: dict[str, tuple[str, str, str]] = {
    "fma.rn.f": ("float", "fff", "%r = call float @llvm.fma.f32(float %a, float %b, float %c)"),
    "fma.rn.d": ("double", "ddd", "%r = call double @llvm.fma.f64(double %a, double %b, double %c)"),
    "floor.f": ("float", "f", "%r = call float @llvm.floor.f32(float %a)"),
    "floor.d": ("double", "d", "%r = call double @llvm.floor.f64(double %a)"),
    "trunc.f": ("float", "f", "%r = call float @llvm.trunc.f32(float %a)"),
    "trunc.d": ("double", "d", "%r = call double @llvm.trunc.f64(double %a)"),
    "round.f": ("float", "f", "%r = call float @llvm.rint.f32(float %a)"),
    "round.d": ("double", "d", "%r = call double @llvm.rint.f64(double %a)"),
    "fabs.f32": ("float", "f", "%r = call float @llvm.fabs.f32(float %a)"),
    "fabs.f64": ("double", "d", "%r = call double @llvm.fabs.f64(double %a)"),
    "fmin.f": ("float", "ff", "%r = call float @llvm.minnum.f32(float %a, float %b)"),
    "fmax.f": ("float", "ff", "%r = call float @llvm.maxnum.f32(float %a, float %b)"),
    "fmin.d": ("double", "dd", "%r = call double @llvm.minnum.f64(double %a, double %b)"),
    "fmax.d": ("double", "dd", "%r = call double @llvm.maxnum.f64(double %a, double %b)"),
    "saturate.f": ("float", "f", "%s = call float @llvm.maxnum.f32(float %a, float 0.0)\n"
                   "%r = call float @llvm.minnum.f32(float %s, float 1.0)"),
    "sqrt.rn.f": ("float", "f", "%r = call float @llvm.sqrt.f32(float %a)"),
    "sqrt.rn.d": ("double", "d", "%r = call double @llvm.sqrt.f64(double %a)"),
    "add.rn.f": ("float", "ff", "%r = fadd float %a, %b"),
    "mul.rn.f": ("float", "ff", "%r = fmul float %a, %b"),
    "add.rn.d": ("double", "dd", "%r = fadd double %a, %b"),
    "mul.rn.d": ("double", "dd", "%r = fmul double %a, %b"),
    "add.rz.f": ("float", "ff", "%x = fpext float %a to double\n%y = fpext float %b to double\n"
                 "%o = call double @odd(double %x, double %y)\n%r = call float @chopped(double %o)"),
    "mul.rz.f": ("float", "ff", "%x = fpext float %a to double\n%y = fpext float %b to double\n"
                 "%o = fmul double %x, %y\n%r = call float @chopped(double %o)"),
    "fma.rz.f": ("float", "fff", "%x = fpext float %a to double\n%y = fpext float %b to double\n"
                 "%z = fpext float %c to double\n%p = fmul double %x, %y\n"
                 "%o = call double @odd(double %p, double %z)\n%r = call float @chopped(double %o)"),
    "fma.rm.f": ("float", "fff", "%x = fpext float %a to double\n%y = fpext float %b to double\n"
                 "%z = fpext float %c to double\n%p = fmul double %x, %y\n"
                 "%o = call double @odd(double %p, double %z)\n%r = call float @down(double %o)"),
    "d2i.rn": ("i32", "d", "%s = call double @llvm.rint.f64(double %a)\n"
               "%r = call i32 @llvm.fptosi.sat.i32.f64(double %s)"),
    "f2i.rn": ("i32", "f", "%x = fpext float %a to double\n%s = call double @llvm.rint.f64(double %x)\n"
               "%r = call i32 @llvm.fptosi.sat.i32.f64(double %s)"),
    "f2i.rz": ("i32", "f", "%r = call i32 @llvm.fptosi.sat.i32.f32(float %a)"),
    "lohi.i2d": ("double", "ii", "%l = zext i32 %a to i64\n%h = zext i32 %b to i64\n%s = shl i64 %h, 32\n"
                 "%o = or i64 %l, %s\n%r = bitcast i64 %o to double"),
    "d2i.lo": ("i32", "d", "%x = bitcast double %a to i64\n%r = trunc i64 %x to i32"),
    "d2i.hi": ("i32", "d", "%x = bitcast double %a to i64\n%h = lshr i64 %x, 32\n%r = trunc i64 %h to i32"),
}  # fmt: skip

# Approximate fp32 instructions: the exact value %e in float64, then their documented error: ulp of it, or relative.
_APPROXIMATE = {
    "rcp.approx.f": ("f", "%e = fdiv double 1.0, %x", 1.0, "ulp"),
    "div.approx.f": ("ff", "%e = fdiv double %x, %y", 2.0, "ulp"),
    "ex2.approx.f32": ("f", "%e = call double @exp2(double %x)", 2.0, "ulp"),
    "rsqrt.approx.f": ("f", "%q = call double @llvm.sqrt.f64(double %x)\n%e = fdiv double 1.0, %q", 2.0**-22.9, ""),
    "sqrt.approx.f": ("f", "%e = call double @llvm.sqrt.f64(double %x)", 2.0**-23, ""),
}
_HALF_UNIT = 2.0**-24

# lg2.approx: absolute error 2^-22 on (0.5, 2), relative outside.
_LOG2 = """%x = fpext float %a to double
%e = call double @log2(double %x)
%m = call double @llvm.fabs.f64(double %e)
%near = fcmp olt double %m, 1.0
%reach = select i1 %near, double 1.0, double %m
%d = call double @leaning(double %reach, double 0x3E90000000000000)
%k = fsub double %d, %reach
%z = fadd double %e, %k
%finite = fcmp olt double %m, 0x7FF0000000000000
%w = select i1 %finite, double %z, double %e
%r = fptrunc double %w to float"""

# Gross fp64 approximations return the high word only; the library refines them.
_GROSS = """%w = call double @leaning(double %e, double 0x3EB0000000000000)
%bits = bitcast double %w to i64
%high = and i64 %bits, -4294967296
%r = bitcast i64 %high to double"""
_ROOT = "%q = call double @llvm.sqrt.f64(double %a)\n%e = fdiv double 1.0, %q\n"

# Inline assembly: a piece of its text, then the function that stands for it.
ASSEMBLY = {
    "rcp.approx.ftz.f32": "gpu.rcp.approx.ftz.f",
    "rsqrt.approx.ftz.f64": "gpu.rsqrt.gross",
    "mad.lo.cc.u32   $0, $2, $3, $4": "gpu.mad.wide",
    "alo, ahi, blo, bhi, clo, chi": "gpu.mad.wide64",
    "alo, ahi, blo, bhi;": "gpu.mul.wide64",
    "sub.cc.u32      r0": "gpu.sub128",
    "add.cc.u32      r0": "gpu.add128",
}
_INTEGERS = """
define {i32, i32} @gpu.mad.wide(i32 %a, i32 %b, i32 %c) alwaysinline {
  %x = zext i32 %a to i64
  %y = zext i32 %b to i64
  %z = zext i32 %c to i64
  %p = mul i64 %x, %y
  %s = add i64 %p, %z
  %l = trunc i64 %s to i32
  %t = lshr i64 %s, 32
  %h = trunc i64 %t to i32
  %r0 = insertvalue {i32, i32} undef, i32 %l, 0
  %r = insertvalue {i32, i32} %r0, i32 %h, 1
  ret {i32, i32} %r
}
define {i64, i64} @parts128(i128 %s) alwaysinline {
  %l = trunc i128 %s to i64
  %t = lshr i128 %s, 64
  %h = trunc i128 %t to i64
  %r0 = insertvalue {i64, i64} undef, i64 %l, 0
  %r = insertvalue {i64, i64} %r0, i64 %h, 1
  ret {i64, i64} %r
}
define i128 @whole128(i64 %l, i64 %h) alwaysinline {
  %x = zext i64 %l to i128
  %y = zext i64 %h to i128
  %s = shl i128 %y, 64
  %r = or i128 %x, %s
  ret i128 %r
}
define {i64, i64} @gpu.mad.wide64(i64 %a, i64 %b, i64 %c) alwaysinline {
  %x = zext i64 %a to i128
  %y = zext i64 %b to i128
  %z = zext i64 %c to i128
  %p = mul i128 %x, %y
  %s = add i128 %p, %z
  %r = call {i64, i64} @parts128(i128 %s)
  ret {i64, i64} %r
}
define {i64, i64} @gpu.mul.wide64(i64 %a, i64 %b) alwaysinline {
  %r = call {i64, i64} @gpu.mad.wide64(i64 %a, i64 %b, i64 0)
  ret {i64, i64} %r
}
define {i64, i64} @gpu.add128(i64 %a, i64 %b, i64 %c, i64 %d) alwaysinline {
  %x = call i128 @whole128(i64 %a, i64 %b)
  %y = call i128 @whole128(i64 %c, i64 %d)
  %s = add i128 %x, %y
  %r = call {i64, i64} @parts128(i128 %s)
  ret {i64, i64} %r
}
define {i64, i64} @gpu.sub128(i64 %a, i64 %b, i64 %c, i64 %d) alwaysinline {
  %x = call i128 @whole128(i64 %a, i64 %b)
  %y = call i128 @whole128(i64 %c, i64 %d)
  %s = sub i128 %x, %y
  %r = call {i64, i64} @parts128(i128 %s)
  ret {i64, i64} %r
}
"""

_TYPES = {"f": "float", "d": "double", "i": "i32"}


def _define(name: str, result: str, kinds: str, lines: str, ftz: bool = False) -> str:
    """One function; with `ftz` subnormal fp32 arguments and results become zero."""
    mark = "0" if ftz else ""
    given = ", ".join(f"{_TYPES[k]} %{v}{mark}" for v, k in zip("abc", kinds, strict=False))
    read = "\n".join(f"%{v} = call float @ftz(float %{v}0)" for v in "abc"[: len(kinds)]) if ftz else ""
    last = "%r"
    if ftz and result == "float":
        lines, last = f"{lines}\n%out = call float @ftz(float %r)", "%out"
    return f"define {result} @{name}({given}) alwaysinline {{\n{read}\n{lines}\nret {result} {last}\n}}\n"


def _approximate(kinds: str, exact: str, error: float, unit: str) -> str:
    """The exact value moved by `lean` times the documented error; rounding adds the half unit of a documented ulp.

    A number of the format stays as it is: powers of two come out of ex2 exactly, and the library relies on that.
    """
    wide = "\n".join(f"%{'xy'[i]} = fpext float %{'abc'[i]} to double" for i in range(len(kinds)))
    reach = error * 2.0**-23 if unit == "ulp" else error - _HALF_UNIT
    return f"""{wide}
{exact}
%near = fptrunc double %e to float
%back = fpext float %near to double
%same = fcmp oeq double %e, %back
%w = call double @{"shifted" if unit == "ulp" else "leaning"}(double %e, double {reach:.20e})
%leant = fptrunc double %w to float
%r = select i1 %same, float %near, float %leant"""


def _flushing(name: str) -> str:
    """`sqrt.rn.f` -> `sqrt.rn.ftz.f`, `fabs.f32` -> `fabs.ftz.f32`; conversions end in `.ftz`."""
    head, tail = name.rsplit(".", 1)
    return f"{name}.ftz" if name.startswith("f2i") else f"{head}.ftz.{tail}"


def definitions() -> dict[str, str]:
    """IR of every instruction by its name in the bitcode, without the helpers of `prelude`."""
    found: dict[str, str] = {}

    def add(name: str, result: str, kinds: str, lines: str) -> None:
        full = f"gpu.{name}"
        found[full] = _define(full, result, kinds, lines)
        if "f" in kinds:
            full = f"gpu.{_flushing(name)}"
            found[full] = _define(full, result, kinds, lines, ftz=True)

    for name, (result, kinds, lines) in _PLAIN.items():
        add(name, result, kinds, lines)
    for name, (kinds, exact, error, unit) in _APPROXIMATE.items():
        add(name, "float", kinds, _approximate(kinds, exact, error, unit))
    add("lg2.approx.f", "float", "f", _LOG2)
    add("rsqrt.approx.d", "double", "d", f"{_ROOT}%r = call double @leaning(double %e, double 0x3CB0000000000000)")
    add("rsqrt.gross", "double", "d", _ROOT + _GROSS)
    add("rcp.approx.ftz.d", "double", "d", "%e = fdiv double 1.0, %a\n" + _GROSS)
    for bits in (32, 64):
        for op, beyond in (("shl", "0"), ("lshr", "0"), ("ashr", f"ashr i{bits} %a, {bits - 1}")):
            found[f"gpu.{op}.i{bits}"] = _shift(op, bits, beyond)
    return found


def _shift(op: str, bits: int, beyond: str) -> str:
    """A shift whose amount is clamped to the width, as in PTX."""
    kind = f"i{bits}"
    far = f"%far = {beyond}" if " " in beyond else f"%far = add {kind} 0, {beyond}"
    return f"""define {kind} @gpu.{op}.{kind}({kind} %a, {kind} %b) alwaysinline {{
%fits = icmp ult {kind} %b, {bits}
%safe = select i1 %fits, {kind} %b, {kind} 0
%near = {op} {kind} %a, %safe
{far}
%r = select i1 %fits, {kind} %near, {kind} %far
ret {kind} %r
}}
"""


def prelude() -> str:
    """Helpers that the definitions call."""
    return _HEAD + _INTEGERS
