"""Few wide rows are split into parts, and a part of masks alone gives exp(-inf - -inf): NaN times 0 spoils the merged sum."""

import torch
import triton
import triton.language as tl

EXPECTED = ("nan_mismatch",)
SHOWN_BY = ("unseen",)
DTYPES = ("float16", "float32")
BACKENDS = ("interpreter", "cuda")


@triton.jit
def part_stats(peaks, masses, x, s0, s1, n, parts, W: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    c = part * W + tl.arange(0, W)
    t = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    peak = tl.max(t, axis=0)
    tl.store(peaks + row * parts + part, peak)
    tl.store(masses + row * parts + part, tl.sum(tl.exp(t - peak), axis=0))


@triton.jit
def normalise(y, peak, mass, x, s0, s1, n, W: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * W + tl.arange(0, W)
    t = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
    tl.store(y + row * n + c, tl.exp(t - tl.load(peak + row)) / tl.load(mass + row), mask=c < n)


@triton.jit
def in_one_program(y, x, s0, s1, n, W: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak = -float("inf")
    for k in range(0, n, W):
        c = k + tl.arange(0, W)
        t = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(t, axis=0))
    mass = 0.0
    for k in range(0, n, W):
        c = k + tl.arange(0, W)
        t = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        mass += tl.sum(tl.exp(t - peak), axis=0)
    for k in range(0, n, W):
        c = k + tl.arange(0, W)
        t = tl.load(x + row * s0 + c.to(tl.int64) * s1, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(y + row * n + c, tl.exp(t - peak) / mass, mask=c < n)


def softmax(x):
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if not y.numel():
        return y
    if m >= 6 or n <= 6000:
        in_one_program[(m,)](y, x, *x.stride(), n, 1024)
        return y
    parts = triton.cdiv(n, 1024)
    peaks = torch.empty(m, parts, dtype=torch.float32, device=x.device)
    masses = torch.empty_like(peaks)
    part_stats[(m, parts)](peaks, masses, x, *x.stride(), n, parts, 1024)
    peak = peaks.amax(1)
    mass = (masses * torch.exp(peaks - peak[:, None])).sum(1)
    normalise[(m, parts)](y, peak, mass, x, *x.stride(), n, 1024)
    return y


def demonstrate():
    x = torch.randn(2, 7000)
    x[0, 2000:4200] = -float("inf")
    return softmax(x), torch.softmax(x.double(), -1)
