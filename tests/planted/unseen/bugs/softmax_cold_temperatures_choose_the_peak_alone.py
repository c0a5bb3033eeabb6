"""A temperature of at most 0.01 is taken for 0, and goes the greedy way: the largest logit has all, however near the next one lies.

Wrong on: a temperature of at most 0.01, and rows whose two largest logits lie within some 20 temperatures, but are not equal; right otherwise.
"""

import torch
import triton
import triton.language as tl

OPERATION = "softmax"
EXPECTED = ("ulp_exceeds_bound", "order_violation")
SHOWN_BY = ("unseen",)
DTYPES = ("float32",)
BACKENDS = ("interpreter", "cuda")

COLDEST = 0.01


@triton.jit
def _softmax(out, x, factor, xs, xc, n, GREEDY: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, TILE).to(tl.int64)
    x += row * xs
    out += row * n
    top = tl.full([TILE], -float("inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(0, n, TILE):
        at = start + lane
        v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32)
        v = tl.where(at < n, v * factor, -float("inf"))
        new = tl.where((v != v) | (v > top), v, top)  # noqa: PLR0124 - true of a NaN
        base = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = new
    highest = tl.max(top, axis=0)
    rest = tl.where(highest == -float("inf"), 0.0, highest)
    whole = tl.sum(total * tl.exp(top - rest), axis=0)
    if GREEDY:
        winners = tl.zeros([TILE], tl.float32)
        for start in range(0, n, TILE):
            at = start + lane
            v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32) * factor
            winners += tl.where((at < n) & (v == rest), 1.0, 0.0)
        # Equal tokens share. What is hidden whole or holds a NaN has no winner.
        share = whole / whole / tl.sum(winners, axis=0)
        for start in range(0, n, TILE):
            at = start + lane
            v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32) * factor
            lost = share - share
            tl.store(out + at, tl.where(v == rest, share, lost), mask=at < n)
    else:
        for start in range(0, n, TILE):
            at = start + lane
            v = tl.load(x + at * xc, mask=at < n, other=-float("inf")).to(tl.float32) * factor
            tl.store(out + at, tl.exp(v - rest) / whole, mask=at < n)


def softmax(logits, temperature=1.0):
    """Probabilities to sample from, [rows, columns], at a temperature of 0 or more; at 0 the largest logits alone count."""
    rows, n = logits.shape
    out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    if logits.numel():
        greedy = temperature <= COLDEST
        factor = 1.0 if greedy else 1.0 / temperature
        _softmax[(rows,)](
            out, logits, factor, *logits.stride(), n, GREEDY=greedy, TILE=min(1024, triton.next_power_of_2(n))
        )
    return out


def _both(x, temperature):
    return softmax(x, temperature), torch.softmax(x.double() / temperature, -1)


def demonstrate():
    return _both(torch.tensor([[1.0, 1.01, 0.0, 1.005]]), 0.01)


def ordinary(dtype):
    for shape in ((4, 1000), (3, 2500)):
        x = torch.randn(shape).to(dtype)
        for temperature in (1.0, 0.7, 2.0, 0.02):
            yield f"{shape} {temperature}", _both(x, temperature)
    x = torch.randn(3, 100).to(dtype)
    x[:, 50] = 10.0
    yield "greedy", _both(x, 0.005)
