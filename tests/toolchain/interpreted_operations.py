"""Functions of one tensor, each a kernel that shows what one kind of operation gives. Run by operating_child.py."""

import torch
import triton
import triton.language as tl
from triton.language import exp2 as exp2_by_name
from triton.language.extra import libdevice
from triton.language.extra.libdevice import expm1


def _shaped(x, *shape, dtype=None):
    return torch.empty(shape, dtype=x.dtype if dtype is None else dtype)


@triton.jit
def extremes_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    tl.store(out + 0, tl.argmax(values, axis=0).to(tl.float32))
    tl.store(out + 1, tl.argmin(values, axis=0).to(tl.float32))
    tl.store(out + 2, tl.argmax(values, axis=0, tie_break_left=False).to(tl.float32))
    maximum, at = tl.max(values, axis=0, return_indices=True)
    tl.store(out + 3, maximum)
    tl.store(out + 4, at.to(tl.float32))
    tl.store(out + 5, tl.max(values, axis=0))
    tl.store(out + 6, tl.min(values, axis=0))


def extremes(x):
    out = _shaped(x, 7)
    extremes_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def pairs_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(x + N + lanes)
    tl.store(out + lanes, tl.maximum(a, b))
    tl.store(out + N + lanes, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 2 * N + lanes, tl.minimum(a, b))
    tl.store(out + 3 * N + lanes, tl.clamp(a, -1.0, 1.0))


def pairs(x):
    out = _shaped(x, 4, x.shape[1])
    pairs_kernel[(1,)](out, x, x.shape[1])
    return out


@triton.jit
def arithmetic_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(x + N + lanes)
    tl.store(out + lanes, a + b)
    tl.store(out + N + lanes, a * b)
    tl.store(out + 2 * N + lanes, tl.where(a > b, a, b))
    tl.store(out + 3 * N + lanes, -a)
    tl.store(out + 4 * N + lanes, tl.fma(a, b, a))
    tl.store(out + 5 * N + lanes, tl.maximum(a, b))


def arithmetic(x):
    out = _shaped(x, 6, x.shape[1])
    arithmetic_kernel[(1,)](out, x, x.shape[1])
    return out


def arithmetic_in_bfloat16(x):
    return arithmetic(x.to(torch.bfloat16))


@triton.jit
def bfloat16_sums_kernel(out, x, N: tl.constexpr):
    values = tl.load(x + tl.arange(0, N)).to(tl.bfloat16)
    tl.store(out, tl.sum(values, axis=0))
    tl.store(out + 1, tl.sum(values.to(tl.float64), axis=0).to(tl.bfloat16))
    tl.store(out + 2, tl.load(x).to(tl.int32).to(tl.bfloat16))
    tl.store(out + 3 + tl.arange(0, N), (tl.arange(0, N) * 257).to(tl.bfloat16))
    ones = tl.full((N, N), 1.0, tl.bfloat16)
    product = tl.dot(tl.broadcast_to(values[None, :], (N, N)), ones)
    tl.store(out + 3 + N, tl.max(tl.max(product, axis=1), axis=0).to(tl.bfloat16))


def bfloat16_sums(x):
    out = _shaped(x, 4 + x.numel(), dtype=torch.bfloat16)
    bfloat16_sums_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def to_integers_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    tl.store(out + lanes, values.to(tl.int32).to(tl.int64))
    tl.store(out + N + lanes, values.to(tl.uint32).to(tl.int64))
    tl.store(out + 2 * N + lanes, values.to(tl.int64))
    tl.store(out + 3 * N + lanes, values.to(tl.float64).to(tl.int32).to(tl.int64))
    tl.store(out + 4 * N + lanes, values.to(tl.int16).to(tl.int64))
    tl.store(out + 5 * N + lanes, values.to(tl.float16).to(tl.int32).to(tl.int64))


def to_integers(x):
    out = _shaped(x, 6, x.numel(), dtype=torch.int64)
    to_integers_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def narrowed_kernel(out, x, FORMAT: tl.constexpr, ROUNDING: tl.constexpr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    narrow = tl.load(x + lanes).to(FORMAT, fp_downcast_rounding=ROUNDING)
    tl.store(out + lanes, narrow.to(tl.float64))


def _narrowed(x, form, rounding):
    out = _shaped(x, x.numel(), dtype=torch.float64)
    narrowed_kernel[(1,)](out, x, form, rounding, x.numel())
    return out


def to_e4m3(x):
    return _narrowed(x, tl.float8e4nv, None)


def to_e5m2(x):
    return _narrowed(x, tl.float8e5, None)


def to_float16(x):
    return _narrowed(x, tl.float16, "rtne")


def to_float16_towards_zero(x):
    return _narrowed(x, tl.float16, "rtz")


def to_bfloat16(x):
    return _narrowed(x, tl.bfloat16, None)


def to_bfloat16_towards_zero(x):
    return _narrowed(x, tl.bfloat16, "rtz")


@triton.jit
def integers_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    a, b = tl.load(x + lanes), tl.load(x + N + lanes)
    tl.store(out + lanes, a + b)
    tl.store(out + N + lanes, a * b)
    tl.store(out + 2 * N + lanes, a // b)
    tl.store(out + 3 * N + lanes, a % b)
    tl.store(out + 4 * N + lanes, a << b)
    tl.store(out + 5 * N + lanes, a >> b)
    tl.store(out + 6 * N + lanes, ~a)


def integers(x):
    out = _shaped(x, 7, x.shape[1])
    integers_kernel[(1,)](out, x, x.shape[1])
    return out


@triton.jit
def functions_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    tl.store(out + lanes, tl.exp(values))
    tl.store(out + N + lanes, tl.exp2(values))
    tl.store(out + 2 * N + lanes, tl.log(tl.abs(values)))
    tl.store(out + 3 * N + lanes, tl.log2(tl.abs(values)))
    tl.store(out + 4 * N + lanes, tl.rsqrt(tl.abs(values)))
    tl.store(out + 5 * N + lanes, tl.fma(values, values, -values))
    tl.store(out + 6 * N + lanes, exp2_by_name(values))
    tl.store(out + 7 * N + lanes, libdevice.exp(values))
    tl.store(out + 8 * N + lanes, expm1(values))


def functions(x):
    out = _shaped(x, 9, x.numel())
    functions_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def exponentials_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    tl.store(out + lanes, tl.exp(values))
    tl.store(out + N + lanes, tl.exp2(values))
    tl.store(out + 2 * N + lanes, tl.extra.cuda.libdevice.exp(values))


def exponentials(x):
    out = _shaped(x, 3, x.numel())
    exponentials_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def larger_with_place(value, place, other, other_place):
    if other > value:
        value, place = other, other_place
    return value, place


@triton.jit
def normalizer(m, s, other_m, other_s):
    larger = tl.maximum(m, other_m)
    return larger, s * tl.exp(m - larger) + other_s * tl.exp(other_m - larger)


@triton.jit
def sums_kernel(out, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(out + columns, tl.sum(tile, axis=0))
    tl.store(out + COLUMNS + columns, tl.reduce(tile, 0, plus))
    last = tl.cumsum(tile, axis=0)
    tl.store(out + 2 * COLUMNS + columns, tl.sum(tl.where(rows[:, None] == ROWS - 1, last, 0.0), axis=0))
    last = tl.associative_scan(tile, 0, plus, reverse=True)
    tl.store(out + 3 * COLUMNS + columns, tl.sum(tl.where(rows[:, None] == 0, last, 0.0), axis=0))


def sums(x):
    out = _shaped(x, 4, x.shape[1])
    sums_kernel[(1,)](out, x, *x.shape)
    return out


@triton.jit
def folds_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    maximum, total = tl.reduce((values, tl.full((N,), 1.0, tl.float32)), 0, normalizer)
    tl.store(out, maximum)
    tl.store(out + 1, total)
    maximum, at = tl.reduce((values, lanes), 0, larger_with_place)
    tl.store(out + 2, at.to(tl.float32))
    tl.store(out + 3, tl.sum(tl.where(lanes == 1, tl.sort(values, descending=True), 0.0), axis=0))


def folds(x):
    out = _shaped(x, 4)
    folds_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def running_sums_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out + lanes, tl.cumsum(tl.load(x + lanes), axis=0))
    tl.store(out + N + lanes, tl.associative_scan(tl.load(x + lanes), 0, plus, reverse=True))


def running_sums(x):
    out = _shaped(x, 2, x.numel())
    running_sums_kernel[(1,)](out, x, x.numel())
    return out


@triton.jit
def python_kernel(out, x, scale, large, half, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    tl.store(out + lanes, tl.where((values > 1.0) and (values < 3.0), 1.0, 0.0))
    tl.store(out + N + lanes, tl.where(not (values > 1.0), 1.0, 0.0))
    total = 0.0
    for start in range(0, N, 2):
        total += tl.load(x + start.to(tl.int64))
    tl.store(out + 2 * N, total)
    # A float argument is float32 beside a tensor, so that narrower numbers are widened.
    tl.store(out + 2 * N + 1, tl.sum(tl.full((2,), 1.0, tl.float16) * scale, axis=0))
    tl.store(out + 2 * N + 2, ((large + large) // 2**20).to(tl.float32))
    is_set = tl.load(x) == 1.0
    tl.store(out + 2 * N + 3, tl.sum(tl.where(is_set & (lanes < 2), 1.0, 0.0), axis=0))
    # A loop from a number of 64 bits has such numbers.
    reached = 0.0
    for step in range(tl.program_id(0).to(tl.int64) + 1, 3):
        reached += (step * half).to(tl.float32)
    tl.store(out + 2 * N + 4, reached)


def python(x):
    out = torch.zeros(2 * x.numel() + 5)
    python_kernel[(1,)](out, x, 1.0001, 3 * 2**30, 2**30, x.numel())
    return out


@triton.jit
def atomics_kernel(out, x, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.load(x + lanes)
    tl.atomic_add(out + lanes // 2, values, mask=tl.broadcast_to(lanes < N, (N,)))


def atomics(x):
    out = torch.zeros(x.numel() // 2, dtype=torch.bfloat16)
    atomics_kernel[(1,)](out, x.to(torch.bfloat16), x.numel())
    return out


@triton.jit
def tensor_float_kernel(out, x, PRECISION: tl.constexpr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    values = tl.broadcast_to(tl.load(x + lanes)[None, :], (N, N))
    product = tl.dot(values, tl.full((N, N), 1.0, tl.float32), input_precision=PRECISION)
    tl.store(out, tl.max(tl.max(product, axis=1), axis=0))


def tensor_float(x):
    out = _shaped(x, 4)
    for at, precision in enumerate((None, "tf32", "ieee", "bf16x6")):
        tensor_float_kernel[(1,)](out[at:], x, precision, x.numel())
    return out
