"""conch-triton-kernels: inference kernels, against their definitions in torch."""

import torch
import torch.nn.functional as F
from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.attention.paged_attention import paged_attention
from conch.ops.attention.varlen_attention import varlen_attention
from conch.ops.embedding.rotary_embedding import rotary_embedding
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm
from conch.ops.quantization.bitsandbytes.functional import dequantize_4bit, quantize_4bit
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.gemm import mixed_precision_gemm, scaled_gemm
from conch.ops.quantization.int8 import scaled_int8_quant
from conch.ops.vision.bev_pool import bev_pool
from conch.ops.vision.nms import nms
from conch.ops.vllm.copy_blocks import copy_blocks
from conch.ops.vllm.reshape_and_cache import reshape_and_cache

from render.lab.suite.case import SuiteCase

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def randn(*shapes, dtype=torch.float32):
    return lambda: tuple(torch.randn(s).to(dtype) for s in shapes)


def norm(x, w, eps=1e-6):
    y = x.float()
    return (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


def rows():
    for name, dtype in DTYPES.items():
        yield SuiteCase(
            f"silu_and_mul {name}",
            silu_and_mul,
            lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
            randn((10, 96), dtype=dtype),
        )
        yield SuiteCase(
            f"gelu_tanh_and_mul {name}",
            gelu_tanh_and_mul,
            lambda x: F.gelu(x.chunk(2, -1)[0], approximate="tanh") * x.chunk(2, -1)[1],
            randn((10, 96), dtype=dtype),
        )
        yield SuiteCase(
            f"rms_norm {name}", lambda x, w: rms_norm(x, w, 1e-6), norm, randn((10, 96), (96,), dtype=dtype)
        )
        yield SuiteCase(
            f"gemma_rms_norm {name}",
            lambda x, w: gemma_rms_norm(x, w, 1e-6),
            lambda x, w: norm(x, 1 + w),
            randn((10, 96), (96,), dtype=dtype),
        )
    yield SuiteCase(
        "fused_add_rms_norm",
        lambda x, r, w: fused_add_rms_norm(x, r, w, 1e-6),
        lambda x, r, w: (norm(x + r, w), x + r),
        randn((10, 96), (10, 96), (96,)),
    )


def turned(positions, q, k, table):
    def turn(x):
        cos, sin = table[positions].chunk(2, -1)
        a, b = x.reshape(len(x), -1, 32).chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((a * c - b * s, b * c + a * s), -1).reshape(x.shape)

    return turn(q), turn(k)


def rotations():
    def inputs():
        angle = torch.randn(20, 16)
        return (
            torch.randint(0, 20, (6,)),
            torch.randn(6, 128),
            torch.randn(6, 64),
            torch.cat((angle.cos(), angle.sin()), -1),
        )

    yield SuiteCase("rotary_embedding", lambda p, q, k, t: rotary_embedding(p, q, k, 32, t), turned, inputs)


def quantized():
    def eight(x, s):
        return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8)

    yield SuiteCase(
        "scaled_int8_quant",
        lambda x, s: scaled_int8_quant(x, s)[0],
        eight,
        lambda: (torch.randn(10, 64), torch.tensor([0.02])),
    )
    yield SuiteCase(
        "scaled_fp8_quant",
        lambda x, s: scaled_fp8_quant(x, s)[0].float(),
        lambda x, s: torch.clamp(x / s, -448, 448).to(torch.float8_e4m3fn).float(),
        lambda: (torch.randn(10, 64), torch.tensor([0.02])),
    )
    yield SuiteCase(
        "scaled_gemm int8",
        lambda a, b, s, t: scaled_gemm(a, b, s, t, torch.float16),
        lambda a, b, s, t: ((a.float() @ b.float()) * s * t.reshape(1, -1)).half(),
        lambda: (
            torch.randint(-99, 99, (24, 64), dtype=torch.int8),
            torch.randint(-99, 99, (64, 32), dtype=torch.int8),
            torch.rand(24, 1) * 0.01,
            torch.rand(32, 1) * 0.01,
        ),
    )

    def packed(n):
        def make():
            words = torch.randint(-(2**31), 2**31 - 1, (16, n), dtype=torch.int32)
            return torch.randn(16, 128, dtype=torch.float16), words, (torch.rand(1, n) * 0.1).half()

        return make

    def unpacked(x, w, s):
        digits = torch.stack([(w >> (4 * i)) & 15 for i in range(8)], 1).reshape(128, -1)
        return (x.float() @ ((digits - 8).half() * s).float()).half()

    for n in (64, 32):
        yield SuiteCase(
            f"mixed_precision_gemm int4 n={n}",
            lambda x, w, s: mixed_precision_gemm(x, w, s, None, 4, 8, 128),
            unpacked,
            packed(n),
        )

    def there_and_back(kind):
        def run(x):
            codes, state = quantize_4bit(x, blocksize=64, quant_type=kind)
            return dequantize_4bit(codes, state, quant_type=kind)

        return run

    nf4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
           0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]  # fmt: skip

    def nearest(x):
        blocks = x.reshape(-1, 64)
        scale = blocks.abs().amax(1, keepdim=True)
        table = torch.tensor(nf4, dtype=x.dtype)
        return (table[((blocks / scale)[..., None] - table).abs().argmin(-1)] * scale).reshape(x.shape)

    yield SuiteCase("quantize and dequantize nf4", there_and_back("nf4"), nearest, randn((1024,)))


def attentions():
    def plain(q, keys, values, table, lengths):
        out = []
        for i, n in enumerate(lengths.tolist()):
            k, v = (
                c[table[i].long()].reshape(-1, *c.shape[2:])[:n].repeat_interleave(q.shape[1] // c.shape[2], 1)
                for c in (keys, values)
            )
            weights = torch.softmax(torch.einsum("hd,thd->ht", q[i].float(), k.float()) * q.shape[-1] ** -0.5, -1)
            out.append(torch.einsum("ht,thd->hd", weights, v.float()).to(q.dtype))
        return torch.stack(out)

    def cache():
        shape = 12, 16, 2, 32
        table = torch.randperm(12, dtype=torch.int64).to(torch.int32).reshape(3, 4)
        return (
            torch.randn(3, 4, 32).half(),
            torch.randn(shape).half(),
            torch.randn(shape).half(),
            table,
            torch.tensor([5, 33, 64], dtype=torch.int32),
        )

    yield SuiteCase("paged_attention", paged_attention, plain, cache)

    def causal(q, keys, values, starts, lengths, table):
        out = []
        for i, n in enumerate(lengths.tolist()):
            mine = q[starts[i] : starts[i + 1]]
            k, v = (
                c[table[i].long()].reshape(-1, *c.shape[2:])[:n].repeat_interleave(q.shape[1] // c.shape[2], 1)
                for c in (keys, values)
            )
            scores = torch.einsum("qhd,thd->hqt", mine.float(), k.float()) * q.shape[-1] ** -0.5
            seen = torch.arange(n)[None] <= torch.arange(len(mine))[:, None] + n - len(mine)
            weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), -1)
            out.append(torch.einsum("hqt,thd->qhd", weights, v.float()).to(q.dtype))
        return torch.cat(out)

    def ragged():
        lengths = torch.tensor([10, 24], dtype=torch.int32)
        shape = 8, 16, 2, 32
        table = torch.arange(8, dtype=torch.int32).reshape(2, 4)
        starts = torch.tensor([0, 10, 34], dtype=torch.int32)
        return (
            torch.randn(34, 4, 32).half(),
            torch.randn(shape).half(),
            torch.randn(shape).half(),
            starts,
            lengths,
            table,
        )

    yield SuiteCase(
        "varlen_attention causal",
        lambda q, k, v, c, s, t: varlen_attention(q, k, v, c, 24, s, 24, t, causal=True),
        causal,
        ragged,
    )


def moved():
    def boxes():
        corner = torch.rand(20, 2) * 10
        return torch.cat((corner, corner + 1 + 4 * torch.rand(20, 2)), 1), torch.rand(20)

    def greedy(boxes, scores):
        area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        left = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
        right = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
        shared = (right - left).clamp(min=0).prod(-1)
        overlap = shared / (area[:, None] + area[None] - shared)
        kept = []
        for i in scores.argsort(descending=True).tolist():
            if all(overlap[i, j] <= 0.4 for j in kept):
                kept.append(i)
        return torch.tensor(kept)

    yield SuiteCase("nms", lambda b, s: nms(b, s, 0.4), greedy, boxes)

    def copied(k, v, pairs):
        k, v = k.clone(), v.clone()
        for source, target in pairs.tolist():
            k[target], v[target] = k[source], v[source]
        return k, v

    def copying(k, v, pairs):
        copy_blocks([k], [v], pairs)
        return k, v

    yield SuiteCase(
        "copy_blocks",
        copying,
        copied,
        lambda: (torch.randn(6, 64), torch.randn(6, 64), torch.tensor([[0, 3], [1, 5]])),
    )

    def cached(k, v, kc, vc, slots):
        kc, vc = kc.clone(), vc.clone()
        kc.reshape(-1, 2, 8)[slots], vc.reshape(-1, 2, 8)[slots] = k, v
        return kc, vc

    def caching(k, v, kc, vc, slots):
        reshape_and_cache(k, v, kc, vc, slots)
        return kc, vc

    yield SuiteCase(
        "reshape_and_cache",
        caching,
        cached,
        lambda: (
            torch.randn(5, 2, 8),
            torch.randn(5, 2, 8),
            torch.randn(4, 16, 2, 8),
            torch.randn(4, 16, 2, 8),
            torch.randperm(64)[:5],
        ),
    )

    def pooled(x, geometry, starts, lengths):
        out = x.new_zeros(1, 2, 4, 4, x.shape[1])
        for s, n in zip(starts.tolist(), lengths.tolist(), strict=True):
            gx, gy, gz, b = geometry[s].tolist()
            out[b, gz, gx, gy] = x[s : s + n].sum(0)
        return out

    def points():
        starts, lengths = torch.tensor([0, 3, 7], dtype=torch.int32), torch.tensor([3, 4, 2], dtype=torch.int32)
        cells = torch.tensor([[0, 1, 0, 0], [2, 3, 1, 0], [3, 0, 0, 0]], dtype=torch.int32)
        return torch.randn(9, 16), cells.repeat_interleave(lengths.long(), 0), starts, lengths

    yield SuiteCase("bev_pool", lambda x, g, s, n: bev_pool(x, g, s, n, 1, 2, 4, 4), pooled, points)


def cases():
    for family in (rows, rotations, quantized, attentions, moved):
        yield from family()
