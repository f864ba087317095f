"""One step of a temperature grid: each inner cell moves towards its four neighbours and is heated."""

import torch
import triton
import triton.language as tl


@triton.jit
def hotspot_kernel(T, P, OUT, rows, columns, step, BLOCK: tl.constexpr):
    row = tl.program_id(0) + 1
    column = tl.arange(0, BLOCK) + 1
    mask = column < columns - 1
    here = row * columns + column
    centre = tl.load(T + here, mask=mask, other=0.0)
    north = tl.load(T + here - columns, mask=mask, other=0.0)
    south = tl.load(T + here + columns, mask=mask, other=0.0)
    west = tl.load(T + here - 1, mask=mask, other=0.0)
    east = tl.load(T + here + 1, mask=mask, other=0.0)
    power = tl.load(P + here, mask=mask, other=0.0)
    vertical = north + south - 2.0 * centre
    horizontal = west + east - 2.0 * centre
    change = step * (power + vertical + horizontal)
    new = centre + change
    tl.store(OUT + here, new, mask=mask)


def hotspot(t: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    rows, columns = t.shape
    out = t.clone()
    hotspot_kernel[(rows - 2,)](t, p, out, rows, columns, 0.1, BLOCK=triton.next_power_of_2(columns - 2))
    return out


def make_inputs(rows: int = 10, columns: int = 18):
    return 20 + 10 * torch.rand(rows, columns), torch.rand(rows, columns)


def reference(t: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    out = t.clone()
    inner = t[1:-1, 1:-1]
    around = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:]
    out[1:-1, 1:-1] = inner + 0.1 * (p[1:-1, 1:-1] + around - 4 * inner)
    return out
