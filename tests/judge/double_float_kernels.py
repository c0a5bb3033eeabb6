"""Kernels that call single functions of the arithmetic in two float32."""

import triton
import triton.language as tl

from softcheck.judge.device.double_float import add_to, exp_minus, inverse, product, row_sums, two_sum


@triton.jit
def exp_kernel(distance, low, out, out_low, PRECISE: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    e, e_low = exp_minus(tl.load(distance + place), tl.load(low + place), PRECISE)
    tl.store(out + place, e)
    tl.store(out_low + place, e_low)


@triton.jit
def binary_kernel(a, a_low, b, b_low, out, out_low, KIND: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    first, first_low = tl.load(a + place), tl.load(a_low + place)
    second, second_low = tl.load(b + place), tl.load(b_low + place)
    if KIND == "two_sum":
        found, found_low = two_sum(first, second)
    elif KIND == "product":
        found, found_low = product(first, first_low, second, second_low)
    else:
        found, found_low = inverse(first, first_low)
    tl.store(out + place, found)
    tl.store(out_low + place, found_low)


@triton.jit
def sum_kernel(a, a_low, weights, out, AT_ONCE: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)[None, :]
    values, low, weighted = tl.load(a + place), tl.load(a_low + place), tl.load(weights + place)
    if AT_ONCE:
        high, low, rest, weighted = tl.reduce((values, low, tl.zeros_like(values), weighted), 1, add_to)
    else:
        high, low, rest, weighted = row_sums(values, low, weighted)
    one = tl.arange(0, 1)
    tl.store(out + one, high)
    tl.store(out + 1 + one, low)
    tl.store(out + 2 + one, rest)
    tl.store(out + 3 + one, weighted)


@triton.jit
def rounded_sum(a, b):
    """A planted fault: the rest is lost."""
    return a + b, tl.zeros_like(a)


@triton.jit
def rounded_product(a, a_low, b, b_low):
    """A planted fault: the rounded product's remainder is lost."""
    return a * b, a_low * b + a * b_low
