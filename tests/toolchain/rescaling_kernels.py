"""Kernels that put partial sums together by rescaling them, or do not, each read off its PTX in test_ptx_rescaling.py."""
# ruff: noqa: C901, N806, PLR0912, PLR0915, PLR1714 - one kernel with a switch for each form, named as Triton names constants

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def merged(maximum, total, other_maximum, other_total):
    larger = tl.maximum(maximum, other_maximum)
    return larger, total * tl.exp(maximum - larger) + other_total * tl.exp(other_maximum - larger)


@triton.jit
def softmax_kernel(output, x, columns, BLOCK: tl.constexpr, KIND: tl.constexpr, WIDE: tl.constexpr):
    WORK: tl.constexpr = tl.float64 if WIDE else tl.float32
    lane = tl.arange(0, BLOCK)
    maximum = tl.full([], -float("inf"), WORK)
    total = tl.zeros([], WORK)
    lane_maximum = tl.full([BLOCK], -float("inf"), WORK)
    lane_total = tl.zeros([BLOCK], WORK)
    for start in range(0, columns, BLOCK):
        at = start + lane
        tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(WORK)
        if KIND == "online_scalar":
            larger = tl.maximum(maximum, tl.max(tile, axis=0))
            total = total * tl.exp(maximum - larger) + tl.sum(tl.exp(tile - larger), axis=0)
            maximum = larger
        elif KIND == "online_base_two":
            larger = tl.maximum(maximum, tl.max(tile, axis=0) * LOG2_E)
            total = total * tl.exp2(maximum - larger) + tl.sum(tl.exp2(tile * LOG2_E - larger), axis=0)
            maximum = larger
        elif KIND == "online_libdevice":
            larger = tl.maximum(maximum, tl.max(tile, axis=0))
            total = total * libdevice.exp(maximum - larger) + tl.sum(libdevice.exp(tile - larger), axis=0)
            maximum = larger
        elif KIND == "online_chosen":
            larger = tl.maximum(maximum, tl.max(tile, axis=0))
            factor = tl.where(maximum == -float("inf"), 0.0, tl.exp(maximum - larger))
            total = total * factor + tl.sum(tl.exp(tile - larger), axis=0)
            maximum = larger
        elif KIND == "online_when_larger":
            found = tl.max(tile, axis=0)
            if found > maximum:
                total = total * tl.exp(maximum - found)
                maximum = found
            total += tl.sum(tl.exp(tile - maximum), axis=0)
        elif KIND == "online_divided":
            larger = tl.maximum(maximum, tl.max(tile, axis=0))
            total = total / tl.exp(larger - maximum) + tl.sum(tl.exp(tile - larger), axis=0)
            maximum = larger
        elif KIND == "online_lanes" or KIND == "online_lanes_reduced":
            larger = tl.maximum(lane_maximum, tile)
            lane_total = lane_total * tl.exp(lane_maximum - larger) + tl.exp(tile - larger)
            lane_maximum = larger
        else:
            lane_maximum = tl.maximum(lane_maximum, tile)
    if KIND == "online_lanes":
        maximum = tl.max(lane_maximum, axis=0)
        total = tl.sum(lane_total * tl.exp(lane_maximum - maximum), axis=0)
    elif KIND == "online_lanes_reduced":
        maximum, total = tl.reduce((lane_maximum, lane_total), 0, merged)
    elif KIND == "once_by_reduce":
        at = tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(WORK)
        maximum, total = tl.reduce((tile, tl.where(at < columns, 1.0, 0.0).to(WORK)), 0, merged)
    elif KIND == "three_passes" or KIND == "three_passes_reciprocal" or KIND == "logarithm":
        maximum = tl.max(lane_maximum, axis=0)
        for start in range(0, columns, BLOCK):
            at = start + lane
            tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(WORK)
            lane_total += tl.exp(tile - maximum)
        total = tl.sum(lane_total, axis=0)
    elif KIND == "one_pass":
        tile = tl.load(x + lane, mask=lane < columns, other=-float("inf")).to(WORK)
        maximum = tl.max(tile, axis=0)
        total = tl.sum(tl.exp(tile - maximum), axis=0)
    for start in range(0, columns, BLOCK):
        at = start + lane
        tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(WORK)
        if KIND == "online_base_two":
            result = tl.exp2(tile * LOG2_E - maximum) / total
        elif KIND == "online_libdevice":
            result = libdevice.exp(tile - maximum) / total
        elif KIND == "three_passes_reciprocal":
            result = tl.exp(tile - maximum) * (1.0 / total)
        elif KIND == "logarithm":
            result = tl.exp(tile - maximum - tl.log(total))
        else:
            result = tl.exp(tile - maximum) / total
        tl.store(output + at, result.to(output.dtype.element_ty), mask=at < columns)


@triton.jit
def parts_kernel(maxima, sums, x, columns, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    maximum = tl.max(tile, axis=0)
    tl.store(maxima + part, maximum)
    tl.store(sums + part, tl.sum(tl.exp(tile - maximum), axis=0))


@triton.jit
def whole_kernel(output, maxima, sums, x, columns, parts, PARTS: tl.constexpr, BLOCK: tl.constexpr, KIND: tl.constexpr):
    if KIND == "split_in_a_loop":
        largest = -float("inf")
        for part in range(parts):
            largest = tl.maximum(largest, tl.load(maxima + part))
        total = 0.0
        for part in range(parts):
            total += tl.load(sums + part) * tl.exp(tl.load(maxima + part) - largest)
    else:
        part = tl.arange(0, PARTS)
        maximum = tl.load(maxima + part, mask=part < parts, other=-float("inf"))
        largest = tl.max(maximum, axis=0)
        total = tl.sum(tl.load(sums + part, mask=part < parts, other=0.0) * tl.exp(maximum - largest), axis=0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    tl.store(output + at, tl.exp(tile - largest) / total, mask=at < columns)


@triton.jit
def inverse_kernel(output, maxima, inverses, x, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    tl.store(output + at, tl.exp(tile - tl.load(maxima)) * tl.load(inverses), mask=at < columns)


def softmax_of(kind):
    """A softmax of one row."""

    def softmax(x):
        output, columns = torch.empty_like(x), x.shape[1]
        if kind in ("split", "split_in_a_loop", "saved_inverse"):
            parts = triton.cdiv(columns, 256)
            maxima = torch.empty(parts, dtype=torch.float32, device=x.device)
            sums = torch.empty_like(maxima)
            parts_kernel[(parts,)](maxima, sums, x, columns, 256)
            if kind == "saved_inverse":
                inverse_kernel[(1,)](output, maxima, sums.reciprocal(), x, columns, 256)
            else:
                whole_kernel[(parts,)](output, maxima, sums, x, columns, parts, 8, 256, kind)
        else:
            wide = x.dtype == torch.float64
            softmax_kernel[(1,)](output, x, columns, 256, kind, wide)
        return output

    return softmax


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return softmax_of(name)
