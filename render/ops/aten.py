"""The table of ATen operations: one key set, by shape, for every lane that knows what they mean.

Keys are base names: `add` for `aten::add.Tensor`, `aten::add_` and `out=` alike. Lanes are registries over it: bounds
of host operations (`render.interpreter.hosted`), slices through them (`render.trace.host_links`), the running error of
references (`render.reference.local_error`), references in more bits (`render.reference.precise`). A lane derives its
rule from the shape, the engine's function or the formula where it can; what it cannot do stands refused with a reason,
and a test goes over all keys. An elementwise function is one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any

from render.ops import formulas as f
from render.ops import rows as r
from render.ops.formulas import Formula
from render.ops.rows import RowFormula


class Form(StrEnum):
    """How the results of an operation depend on its operands."""

    MADE = "made"
    """New tensors of no operand's elements."""
    RANDOM = "random"
    MOVE = "move"
    """Elements of the operands, or constants, each unchanged."""
    ORDER = "order"
    """Exact, and nondecreasing in every floating-point operand."""
    EXACT = "exact"
    """Exact, but neither of these."""
    CAST = "cast"
    ARITHMETIC = "arithmetic"
    """+ - * / sqrt: correctly rounded steps."""
    FUNCTION = "function"
    """Elementwise, with an error of its own."""
    SUM = "sum"
    """Linear in its operand: sums and means, with fixed coefficients."""
    PRODUCT = "product"
    """Sums of products of two operands."""
    CHOICE = "choice"
    """Truth values or integers that compare floats."""
    COMPOSITE = "composite"
    """Norms, losses, softmax: of many steps, each with a rule of its own."""
    GRADIENT = "gradient"
    """The backward pass of another operation."""


@dataclass(frozen=True)
class Aten:
    """One operation.

    `function`: the engine's name of a function of one argument. `formula`: of the first `operands` arguments, with the
    arguments called `keywords` as numbers; `computed`: as torch evaluates it, where that differs. `turns`: between
    these a formula of one operand is monotone (None: not known), given its keywords. `row`: as a formula of the rows of
    its first operand; with a formula of several operands besides, of forms that take more than one tensor. `loss`: the
    formula's results are averaged or added as the argument `reduction` says. `integers`: a rule for floats holds for
    integers that rounding leaves open. `cancels`: its error is in units of its argument. `terms`: of a gradient, the
    sum of the magnitudes of what is added, as tensors; at most 12 roundings of it are lost (functions within 4, each
    product and sum within 1). `stepwise`: some kernel of torch rounds each of its steps to the operands' type.
    `typed`: some kernel of torch rounds the numbers among its operands to their type.
    `linear`: of a gradient, sums of products of its operands or of fixed coefficients that are not negative.
    `instruction`: a target may have an approximate one, so that its rounding counts as that of a function.
    `narrow`: by how much a kernel of torch for 16-bit types is off besides its roundings, whatever the result.
    """

    name: str
    form: Form
    function: str = ""
    formula: Formula | None = None
    computed: Formula | None = None
    row: RowFormula | None = None
    loss: bool = False
    turns: Callable[..., tuple[float, ...]] | None = None
    operands: int = 1
    keywords: tuple[str, ...] = ()
    integers: bool = False
    cancels: bool = False
    terms: Callable[..., Any] | None = None
    stepwise: bool = False
    typed: bool = False
    linear: bool = False
    instruction: bool = False
    narrow: float = 0.0

    @property
    def cause(self) -> str:
        """Error cause of its rounding; empty where it rounds nothing."""
        return "function" if self.instruction else _CAUSES.get(self.form, "")


_CAUSES = {
    Form.CAST: "cast", Form.ARITHMETIC: "arith", Form.FUNCTION: "function", Form.SUM: "accumulation",
    Form.PRODUCT: "accumulation", Form.COMPOSITE: "function",
}  # fmt: skip
ATEN: dict[str, Aten] = {}


def _add(op: Aten) -> None:
    if op.name in ATEN:
        raise ValueError(f"{op.name} stands twice")
    ATEN[op.name] = op


def _all(form: Form, names: str, integers: bool = False) -> None:
    for name in names.split():
        _add(Aten(name, form, integers=integers))


def _function(names: str, form: Form = Form.FUNCTION) -> None:
    """Functions of one argument that the engine knows, by `name` or `name=engine's name`."""
    for item in names.split():
        name, _, known = item.partition("=")
        _add(Aten(name, form, known or name))


def _formula(
    name: str, formula: Formula, turns: Callable[..., tuple[float, ...]] | tuple[float, ...] | None = (),
    form: Form = Form.FUNCTION, keywords: str = "", **more: Any,
) -> None:  # fmt: skip
    """`more`: other fields of `Aten`."""
    at = turns if turns is None or callable(turns) else lambda *, found=turns, **_: found
    _add(Aten(name, form, formula=formula, turns=at, keywords=tuple(keywords.split()), **more))


def _rows(
    names: str, formula: Formula, results: str = "r", form: Form = Form.COMPOSITE, keywords: str = "",
    layout: Callable[..., r.Joined] = r.along, beside: str = "",
) -> None:  # fmt: skip
    """Operations that are one formula of rows."""
    row = RowFormula(formula, layout, results, tuple(keywords.split()), tuple(beside.split()))
    for name in names.split():
        _add(Aten(name, form, row=row))


_all(Form.MADE, """
    zeros ones empty full eye zeros_like ones_like empty_like full_like new_zeros new_ones new_full new_empty
    scalar_tensor empty_strided new_empty_strided arange tril_indices triu_indices empty_permuted
    _new_zeros_with_same_feature_meta
""")  # fmt: skip
_all(Form.FUNCTION, "linspace logspace hann_window hamming_window blackman_window bartlett_window kaiser_window")
_all(Form.RANDOM, """
    rand randn randint randperm rand_like randn_like normal uniform bernoulli multinomial dropout native_dropout
    exponential random randint_like cauchy geometric log_normal
""")  # fmt: skip
_all(Form.MOVE, """
    clone cat stack flip roll rot90 repeat tril triu _unsafe_view copy where masked_fill index gather scatter take
    embedding index_select
""", integers=True)  # fmt: skip
_all(Form.MOVE, """
    alias detach lift_fresh view reshape contiguous expand t transpose permute squeeze unsqueeze select slice
    narrow split chunk unbind pad constant_pad_nd
    diag diagonal diag_embed fill zero as_strided unfold movedim swapaxes masked_select index_put masked_scatter put
    slice_scatter select_scatter diagonal_scatter resize set _reshape_alias im2col replication_pad1d replication_pad2d
    reflection_pad1d reflection_pad2d unsafe_split unsafe_chunk view_as_real view_as_complex one_hot split_with_sizes
    repeat_interleave pixel_shuffle pixel_unshuffle _index_put_impl slice_backward select_backward index_copy
    index_fill diagonal_copy expand_copy split_copy unbind_copy select_copy slice_copy permute_copy view_copy t_copy
    transpose_copy unfold_copy squeeze_copy unsqueeze_copy detach_copy alias_copy split_with_sizes_copy render::about
    upsample_nearest1d upsample_nearest2d channel_shuffle unsafe_split_with_sizes take_along_dim lift
""")  # fmt: skip
_formula("relu", lambda n, x: n.larger(x, n.number(0.0)), None, form=Form.ORDER)
_formula("maximum", lambda n, x, y: n.larger(x, y), None, form=Form.ORDER, operands=2)
_formula("minimum", lambda n, x, y: n.smaller(x, y), None, form=Form.ORDER, operands=2)
_rows("amax", lambda n, x: n.most(x), form=Form.ORDER)
_rows("amin", lambda n, x: n.least(x), form=Form.ORDER)
_formula("max", lambda n, x, y: n.larger(x, y), None, form=Form.ORDER, operands=2, row=ATEN["amax"].row)
_formula("min", lambda n, x, y: n.smaller(x, y), None, form=Form.ORDER, operands=2, row=ATEN["amin"].row)
_all(Form.ORDER, "sort topk", integers=True)
_all(Form.ORDER, """
    clamp clamp_min clamp_max hardtanh fmax fmin aminmax floor ceil trunc round
    sign kthvalue median nanmedian cummax cummin max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d
    adaptive_max_pool3d relu6
""")  # fmt: skip
_formula("neg", lambda n, x: -x, None, form=Form.EXACT)
_formula("abs", lambda n, x: abs(x), None, form=Form.EXACT)
_all(Form.EXACT, "copysign mode frexp ldexp argsort nonzero nan_to_num positive _unique2 unique_dim")
_formula("threshold", f.threshold, lambda threshold, **_: (float(threshold),), form=Form.EXACT,
         keywords="threshold value")  # fmt: skip
_add(Aten("_to_copy", Form.CAST, integers=True))
_formula("add", f.added, None, form=Form.ARITHMETIC, operands=2, keywords="alpha", integers=True, typed=True)
_formula("sub", f.subtracted, None, form=Form.ARITHMETIC, operands=2, keywords="alpha", integers=True, typed=True)
_formula("rsub", f.reversed_difference, None, form=Form.ARITHMETIC, operands=2, keywords="alpha", typed=True)
_formula("mul", lambda n, x, y: x * y, None, form=Form.ARITHMETIC, operands=2, integers=True)
_add(Aten("div", Form.ARITHMETIC, integers=True, instruction=True))
_formula("true_divide", lambda n, x, y: x / y, None, form=Form.ARITHMETIC, operands=2)
_formula("reciprocal", lambda n, x: 1 / x, None, form=Form.ARITHMETIC, instruction=True)
_formula("square", lambda n, x: x * x, None, form=Form.ARITHMETIC)
_formula("lerp", f.lerp, None, form=Form.ARITHMETIC, computed=f.lerp_computed, operands=3)
_formula("addcmul", f.addcmul, None, form=Form.ARITHMETIC, operands=3, keywords="value")
_formula("addcdiv", f.addcdiv, None, form=Form.ARITHMETIC, operands=3, keywords="value")
_formula("hypot", f.hypot, None, form=Form.ARITHMETIC, operands=2, instruction=True)
_add(Aten("sqrt", Form.ARITHMETIC, "sqrt", instruction=True))
_add(Aten("remainder", Form.ARITHMETIC, typed=True))
_add(Aten("fmod", Form.ARITHMETIC, typed=True))
_function("""
    exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh erfc erfinv
    rsqrt lgamma special_erfcx=erfcx
""")  # fmt: skip
# Abramowitz and Stegun 7.1.26 in float32, within 1.5e-7 (vec256_bfloat16.h, vec512 likewise: erf of Half and BFloat16):
# 5.5 * 2^-24 off at most, over all numbers of both types.
_add(Aten("erf", Form.FUNCTION, "erf", narrow=2.0**-21))
_function("special_ndtr=normcdf special_ndtri=normcdfinv", Form.COMPOSITE)
_formula("sigmoid", f.sigmoid)
_formula("silu", f.silu, (-1.2784645427610738,))
_formula("mish", f.mish, (-1.1924312145154497,), cancels=True)
_formula("gelu", f.gelu, (-0.7517915246935645, -0.7524614220710163), computed=f.gelu_computed, keywords="approximate",
         cancels=True, narrow=2.0**-126)  # fmt: skip
_formula("log_sigmoid_forward", f.log_sigmoid, computed=f.log_sigmoid_computed)
_formula("logit", f.logit, keywords="eps", cancels=True, stepwise=True)
_formula("softplus", f.softplus, lambda beta, threshold, **_: (float(threshold) / float(beta),),
         keywords="beta threshold")  # fmt: skip
_formula("elu", f.elu, (0.0,), keywords="alpha scale input_scale")
_formula("leaky_relu", f.leaky_relu, (0.0,), keywords="negative_slope")
_formula("softshrink", f.softshrink, lambda lambd=0.5, **_: (-float(lambd), float(lambd)), form=Form.ARITHMETIC,
         keywords="lambd")  # fmt: skip
_formula("hardsigmoid", f.hardsigmoid, (-3.0, 3.0))
_formula("hardswish", f.hardswish, (-3.0, -1.5, 3.0))
_formula("deg2rad", f.radians)
_formula("rad2deg", f.degrees)
_formula("logaddexp", f.logaddexp, None, operands=2, cancels=True)
_formula("logaddexp2", f.logaddexp2, None, operands=2, cancels=True)
_add(Aten("pow", Form.FUNCTION, stepwise=True, typed=True))
_formula("xlogy", f.x_log_y, None, operands=2, stepwise=True)
_formula("special_xlog1py", f.x_log1p_y, None, operands=2, stepwise=True)
_all(Form.FUNCTION, "atan2 selu celu digamma prelu sinc")
_rows("prod", lambda n, x: n.product(x), form=Form.FUNCTION)
_rows("sum", lambda n, x: n.sum(x), form=Form.SUM)
_rows("mean", r.mean, form=Form.SUM)
_all(Form.SUM, "nansum cumsum trace avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d")
for _name in ("avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool2d_backward",
              "_adaptive_avg_pool3d_backward", "addr", "index_add", "scatter_add", "_adaptive_avg_pool3d",
              "segment_reduce", "col2im",
              "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"):  # fmt: skip
    _add(Aten(_name, Form.SUM, stepwise=True))
_all(Form.PRODUCT, """
    mm bmm addmm baddbmm addbmm mv dot vdot addmv convolution _convolution mkldnn_convolution linear mkldnn_linear
""")  # fmt: skip
_add(Aten("_trilinear", Form.PRODUCT, stepwise=True))
_all(Form.CHOICE, """
    logical_not logical_and logical_or logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor any all count_nonzero
    bincount gt lt ge le eq ne isnan isinf isfinite signbit searchsorted bucketize
""", integers=True)  # fmt: skip
_all(Form.CHOICE, """
    isposinf isneginf
    argmax argmin histc equal allclose isin
""")  # fmt: skip
_rows("_softmax _safe_softmax", r.softmax, "x")
_rows("_log_softmax", r.log_softmax, "x")
_rows("logsumexp", r.logsumexp)
_rows("var", r.variance, keywords="correction unbiased")
_rows("std", r.deviation, keywords="correction unbiased")
_rows("var_mean", lambda n, x, **how: (r.variance(n, x, **how), r.mean(n, x)), "rr", keywords="correction unbiased")
_rows("std_mean", lambda n, x, **how: (r.deviation(n, x, **how), r.mean(n, x)), "rr", keywords="correction unbiased")
_rows("linalg_vector_norm norm", r.vector_norm, keywords="ord p")
_rows("native_layer_norm", r.normalised, "xrr", keywords="eps", layout=r.trailing)
_rows("native_group_norm", r.normalised, "xrr", keywords="eps", layout=r.by_group)
_rows("native_batch_norm", r.batch_normalised, "xrr", keywords="training eps", layout=r.by_channel,
      beside="running_mean running_var")  # fmt: skip
_rows("_fused_rms_norm", r.rms_normalised, "xr", keywords="eps", layout=r.trailing)
_formula("mse_loss", f.squared_distance, None, form=Form.COMPOSITE, operands=2, loss=True, stepwise=True)
_formula("huber_loss", f.huber, None, form=Form.COMPOSITE, operands=2, keywords="delta", loss=True, stepwise=True)
_formula("smooth_l1_loss", f.smooth_l1, None, form=Form.COMPOSITE, operands=2, keywords="beta", loss=True,
         stepwise=True)  # fmt: skip
_all(Form.COMPOSITE, """
    glu floor_divide frac polygamma mvlgamma
    cumprod nll_loss_forward nll_loss2d_forward
    logcumsumexp _cdist_forward _pdist_forward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math _linalg_det _linalg_solve_ex
    _linalg_slogdet linalg_solve_triangular triangular_solve _scaled_mm
    linalg_inv_ex _linalg_svd _linalg_eigh linalg_qr linalg_cholesky_ex _fft_r2c _fft_c2r _fft_c2c scatter_reduce
    index_reduce renorm _weight_norm_interface embedding_bag _embedding_bag grid_sampler_2d upsample_bicubic2d
    linalg_cross linalg_lstsq cholesky_solve cholesky_inverse igamma igammac _ctc_loss
    special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_entr special_i1e
    special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1 special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_spherical_bessel_j0 special_zeta
""")  # fmt: skip
_add(Aten("binary_cross_entropy", Form.COMPOSITE, terms=f.entropy_terms, stepwise=True))
_add(Aten("binary_cross_entropy_with_logits", Form.COMPOSITE, terms=f.logit_entropy_terms, stepwise=True))
# Chebyshev series: peaks of 4.0e-7 and 1.5e-6 of the value in fp32, 5.8e-16 and 1.9e-15 in fp64 (Cephes: i0f.c, i1f.c,
# i0.c, i1.c; torch has them from there). Moved operands would miss it where the derivative is 0, as in i0 at 0.
_add(Aten("i0", Form.COMPOSITE, terms=f.special_terms("i0")))
_add(Aten("special_i0e", Form.COMPOSITE, terms=f.special_terms("i0e"), stepwise=True))
_add(Aten("special_i1", Form.COMPOSITE, terms=f.special_terms("i1", 2.0)))
_add(Aten("sigmoid_backward", Form.GRADIENT, terms=lambda g, y: (g * y * (1 - y)).abs(), stepwise=True))
_add(Aten("tanh_backward", Form.GRADIENT, terms=lambda g, y: g.abs() * (1 + y * y)))
_add(Aten("silu_backward", Form.GRADIENT, terms=lambda g, x: g.abs() * x.sigmoid() * (1 + x.abs())))
_add(Aten("gelu_backward", Form.GRADIENT, terms=f.gelu_terms))
_all(Form.GRADIENT, """
    threshold_backward _softmax_backward_data
    _log_softmax_backward_data native_layer_norm_backward native_group_norm_backward native_batch_norm_backward
    elu_backward leaky_relu_backward softplus_backward hardswish_backward
    nll_loss_backward
""")  # fmt: skip
_add(Aten("convolution_backward", Form.GRADIENT, linear=True))
for _name in ("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "adaptive_max_pool2d_backward",
              "adaptive_max_pool3d_backward"):  # fmt: skip
    _add(Aten(_name, Form.GRADIENT, integers=True, linear=True))
for _name in ("mse_loss_backward", "glu_backward", "huber_loss_backward", "smooth_l1_loss_backward"):
    _add(Aten(_name, Form.GRADIENT, stepwise=True))
_LINEAR = """
    embedding_dense_backward _embedding_bag_backward _embedding_bag_dense_backward masked_scatter_backward
    replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward reflection_pad1d_backward
    reflection_pad2d_backward reflection_pad3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward
    upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward
"""
for _name in _LINEAR.split():
    _add(Aten(_name, Form.GRADIENT, stepwise=True, linear=True))


def base_name(name: str) -> str:
    """`aten::add_` -> `add`; an in-place form means what the plain one does."""
    short = name.removeprefix("aten::")
    return short if short.startswith("_") and short.endswith("__") else short.removesuffix("_")


def named(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of an operation's schema, the given ones first; defaults included."""
    found = {a.name: x for a, x in zip(schema.arguments, args, strict=False)} | dict(kwargs)
    return found | {a.name: a.default_value for a in schema.arguments if a.has_default_value() and a.name not in found}


def scalar_arguments(schema: Any) -> tuple[tuple[int, str], ...]:
    """Places and names of the numbers that an overload takes among its operands: no dimensions, sizes or choices."""
    kinds = ("number", "Optional[number]")
    return tuple((i, a.name) for i, a in enumerate(schema.arguments) if str(a.type) in kinds)


def of_form(*forms: Form) -> frozenset[str]:
    """The names of these forms."""
    return frozenset(name for name, op in ATEN.items() if op.form in forms)


def addends(name: str, args: Sequence[Any], results: int) -> int:
    """K, the number of terms of one element of a sum or product (an upper bound); tensors have `shape`, `numel()`."""
    tensors = [a for a in args if hasattr(a, "numel")]
    if name == "addr":
        return 3
    if name.startswith("avg_pool") and name.endswith("_backward"):  # the windows that an element is under
        return int(prod(args[2]) if len(args[2]) > 1 else args[2][0] ** int(name[8])) + 1
    if name.startswith("_adaptive_avg_pool") and name.endswith("_backward"):
        return int(prod(-(-a // b) + 1 for a, b in zip(args[0].shape[::-1], args[1].shape[::-1], strict=False))) + 1
    if name == "convolution_backward":  # sums over outputs for the input, over images and places for the weight
        grad, x, weight = tensors[:3]
        over = (t.numel() // max(min(t.shape[:2]), 1) for t in (grad, x))
        return int(max(*over, weight.numel() // max(min(weight.shape[:2]), 1))) + 1
    if name in ATEN and ATEN[name].linear:  # every element of a plane may have come from the same one; two weights each
        axes = next((int(c) for c in name if c.isdigit()), 0)
        places = tensors[1].numel() if "embedding" in name else prod(tensors[0].shape[-axes:])
        return int(places) + 4 * axes + 1
    if name.startswith("upsample_"):  # 2^d products of d weights each
        return 4 * int(name[-2])
    if name == "_trilinear":
        return int(prod(tensors[1].shape[1:])) + 1
    if name.startswith("_adaptive_avg_pool"):  # parts of an axis overlap by one element at most
        parts = zip(tensors[0].shape[::-1], args[1][::-1], strict=False)
        return int(prod(-(-size // part) + 1 for size, part in parts)) + 1
    if name == "col2im":
        return int(prod(args[2])) + 1
    if name == "segment_reduce":
        return int(tensors[0].shape[0]) + 1
    if name in ("mm", "bmm", "mv", "dot", "vdot", "linear"):
        return int(tensors[0].shape[-1]) + 1
    if name in ("addmm", "baddbmm", "addmv"):
        return int(tensors[1].shape[-1]) + 1
    if name == "addbmm":
        return int(tensors[1].shape[0] * tensors[1].shape[-1]) + 1
    if name in ("convolution", "_convolution") and args[6]:  # transposed: channels of the input come first
        return int(tensors[1].numel() // max(tensors[1].shape[1] * args[8], 1)) + 1
    if name in ("convolution", "_convolution"):
        return int(tensors[1].numel() // max(tensors[1].shape[0], 1)) + 1
    if name in ("avg_pool1d", "avg_pool2d", "avg_pool3d"):
        kernel, rank = args[1], int(name[-2])
        return int(prod(kernel) if len(kernel) == rank else kernel[0] ** rank) + 1
    if name == "prod":  # factors
        return int(tensors[0].numel() // max(results, 1))
    if name == "cumsum":
        return int(max(tensors[0].shape, default=1))
    if name in ("index_add", "scatter_add"):
        index = args[2]
        return int(index.shape[args[1]] if len(index.shape) > 1 else index.numel()) + 1
    return max(int(tensors[0].numel() // max(results, 1)), 64)


__all__ = ["ATEN", "Aten", "Form", "addends", "base_name", "named", "of_form", "scalar_arguments"]
