"""A fixed number of programs walks over the rows, and each reads the temperature of its first row before the loop.

Wrong on: more than 132 rows whose temperatures differ; right with one temperature, and in small batches.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "order_violation", "row_dependence")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

PROGRAMS = 132


@triton.jit
def _softmax(out, x, temperatures, ts, xs, xc, rows, n, TILE: tl.constexpr):
    first = tl.program_id(0)
    lane = tl.arange(0, TILE).to(tl.int64)
    factor = 1.0 / tl.load(temperatures + first * ts).to(tl.float32)
    for each in range(first, rows, tl.num_programs(0)):
        row = each.to(tl.int64)
        top = tl.full([TILE], -float("inf"), tl.float32)
        total = tl.zeros([TILE], tl.float32)
        for start in range(0, n, TILE):
            at = start + lane
            v = tl.load(x + row * xs + at * xc, mask=at < n, other=-float("inf")).to(tl.float32) * factor
            v = tl.where(at < n, v, -float("inf"))
            new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
            base = tl.where(new == -float("inf"), 0.0, new)
            total = total * tl.exp(top - base) + tl.exp(v - base)
            top = new
        highest = tl.max(top, axis=0)
        rest = tl.where(highest == -float("inf"), 0.0, highest)
        sum_of_all = tl.sum(total * tl.exp(top - rest), axis=0)
        for start in range(0, n, TILE):
            at = start + lane
            v = tl.load(x + row * xs + at * xc, mask=at < n, other=-float("inf")).to(tl.float32) * factor
            tl.store(out + row * n + at, tl.exp(v - rest) / sum_of_all, mask=at < n)


def softmax(logits, temperatures):
    """Softmax of [rows, columns] for sampling; ``temperatures`` is one number, or one for each row."""
    rows, n = logits.shape
    out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    if not logits.numel():
        return out
    temperatures = torch.as_tensor(temperatures, device=logits.device, dtype=torch.float32).flatten().expand(rows)
    tile = min(1024, triton.next_power_of_2(n))
    _softmax[(min(rows, PROGRAMS),)](
        out, logits, temperatures, *temperatures.stride(), *logits.stride(), rows, n, TILE=tile
    )
    return out


def _both(x, t):
    return softmax(x, t), torch.softmax(x.double() / t.double()[:, None], -1)


def demonstrate():
    torch.manual_seed(0)
    return _both(torch.randn(140, 20), torch.linspace(0.5, 2.0, 140))


def ordinary(dtype):
    yield "16 x 1500", _both(torch.randn(16, 1500).to(dtype), torch.linspace(0.5, 2.0, 16))
    yield "128 x 30", _both(torch.randn(128, 30).to(dtype), torch.linspace(0.5, 2.0, 128))
    yield "200 x 30", _both(torch.randn(200, 30).to(dtype), torch.full((200,), 0.7))
