"""Kernels that differ in how a maximum comes to be subtracted, each read off its PTX in test_ptx_shifts.py."""
# ruff: noqa: C901, PLR0912, PLR0915 - one kernel with a switch for each form, named as Triton names constants

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def one_block(output, x, saved, scale, columns, BLOCK: tl.constexpr, KIND: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    inside = lane < columns
    loaded = tl.load(x + lane, mask=inside, other=-float("inf"))
    single = loaded.to(tl.float32)
    if KIND == "scaled":
        logits = single * scale
        powers = tl.exp(logits - tl.max(logits, axis=0))
    elif KIND == "scaled_by_constant":
        logits = single * 0.3
        powers = tl.exp(logits - tl.max(logits, axis=0))
    elif KIND == "scaled_by_an_eighth":
        logits = single * 0.125
        powers = tl.exp(logits - tl.max(logits, axis=0))
    elif KIND == "divided":
        logits = single / scale
        powers = tl.exp(logits - tl.max(logits, axis=0))
    elif KIND == "scaled_libdevice":
        logits = single * scale
        powers = libdevice.exp(logits - tl.max(logits, axis=0))
    elif KIND == "maximum_scaled":
        powers = tl.exp(single * scale - tl.max(single, axis=0) * scale)
    elif KIND == "difference_scaled":
        powers = tl.exp((single - tl.max(single, axis=0)) * scale)
    elif KIND == "difference_turned":
        powers = tl.exp2((tl.max(single, axis=0) - single) * -LOG2_E)
    elif KIND == "folded":
        factor = scale * LOG2_E
        powers = tl.exp2(single * factor - tl.max(single, axis=0) * factor)
    elif KIND == "folded_constant":
        logits = single * (0.3 * LOG2_E)
        powers = tl.exp2(logits - tl.max(logits, axis=0))
    elif KIND == "scaled_and_prescaled":
        logits = single * scale
        powers = tl.exp2(logits * LOG2_E - tl.max(logits, axis=0) * LOG2_E)
    elif KIND == "folded_after":
        powers = tl.exp2((single - tl.max(single, axis=0)) * (scale * LOG2_E))
    elif KIND == "chosen":
        logits = single * scale
        powers = tl.exp(tl.where(inside, logits - tl.max(logits, axis=0), -float("inf")))
    elif KIND == "clamped":
        powers = tl.exp(tl.maximum(single - tl.max(single, axis=0), -80.0))
    elif KIND == "by_argmax":
        logits = single * scale
        largest, _ = tl.max(logits, axis=0, return_indices=True)
        powers = tl.exp(logits - largest)
    elif KIND == "by_minimum":
        powers = tl.exp(single + tl.min(-single, axis=0))
    elif KIND == "logarithm_subtracted":
        difference = single - tl.max(single, axis=0)
        powers = tl.exp(difference - tl.log(tl.sum(tl.exp(difference), axis=0)))
    elif KIND == "maximum_from_memory":
        powers = tl.exp(single - tl.load(saved))
    elif KIND == "scaled_and_maximum_from_memory":
        powers = tl.exp(single * scale - tl.load(saved))
    elif KIND == "maximum_of_parts":
        parts = tl.max(tl.load(saved + tl.arange(0, 4)), axis=0)
        powers = tl.exp(single * scale - parts)
    elif KIND == "subtracted_in_float64":
        double = single.to(tl.float64)
        powers = tl.exp((double - tl.max(double, axis=0)).to(tl.float32))
    elif KIND == "scaled_in_float64":
        logits = single.to(tl.float64) * scale
        powers = tl.exp(logits - tl.max(logits, axis=0))
    elif KIND == "subtracted_in_input_type":
        powers = tl.exp((loaded - tl.max(loaded, axis=0).to(loaded.dtype)).to(tl.float32))
    elif KIND == "scaled_in_input_type":
        logits = loaded * scale.to(loaded.dtype)
        powers = tl.exp((logits - tl.max(logits, axis=0).to(loaded.dtype)).to(tl.float32))
    elif KIND.startswith("capped"):
        if KIND == "capped_by_a_quotient":
            up, down = tl.exp(single * 0.125), tl.exp(-(single * 0.125))
            logits = 8.0 * ((up - down) / (up + down))
        elif KIND == "capped_by_a_reciprocal":
            logits = 8.0 - 16.0 * (1.0 / (1.0 + tl.exp(single * 0.25)))
        else:
            logits = 8.0 * libdevice.tanh(single * 0.125)
        powers = tl.exp(logits - tl.max(logits, axis=0))
    elif KIND == "gated":
        powers = tl.exp(single - tl.max(single, axis=0))
        gate = 1.0 / (1.0 + tl.exp(-tl.load(saved + lane, mask=inside, other=0.0)))
        tl.store(output + lane, (powers / tl.sum(powers, axis=0) * gate).to(loaded.dtype), mask=inside)
        return
    elif KIND == "biased":
        powers = tl.exp(single * scale + tl.load(saved))
    elif KIND == "constant_subtracted":
        powers = tl.exp(single * scale - 5.0)
    elif KIND == "unshifted_in_float64":
        powers = tl.exp(single.to(tl.float64) * scale)
    elif KIND == "maximum_of_unscaled":
        powers = tl.exp(single * scale - tl.max(single, axis=0))
    elif KIND == "maximum_of_unscaled_by_an_eighth":
        powers = tl.exp(single * 0.125 - tl.max(single, axis=0))
    elif KIND == "maximum_of_scaled":
        powers = tl.exp(single - tl.max(single * scale, axis=0))
    tl.store(output + lane, (powers / tl.sum(powers, axis=0)).to(loaded.dtype), mask=inside)


@triton.jit
def two_passes(output, x, scale, columns, BLOCK: tl.constexpr, KIND: tl.constexpr):
    maximum = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        maximum = tl.maximum(maximum, tile if KIND == "tiled_maximum_of_unscaled" else tile * scale)
    largest = tl.max(maximum, axis=0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        total += tl.exp(tile * scale - largest)
    denominator = tl.sum(total, axis=0)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tile = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        tl.store(output + at, tl.exp(tile * scale - largest) / denominator, mask=at < columns)


def softmax_of(kind):
    """A softmax of one row, right where ``kind`` is and the scale is 1."""
    fused = not kind.endswith("_unfused")
    kind = kind.removesuffix("_unfused")

    def softmax(x):
        output = torch.empty_like(x)
        if kind.startswith("tiled"):
            two_passes[(1,)](output, x, 1.0, x.shape[1], 128, kind, enable_fp_fusion=fused)
        else:
            saved = x.float()
            one_block[(1,)](output, x, saved, 1.0, x.shape[1], 256, kind, enable_fp_fusion=fused)
        return output

    return softmax


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return softmax_of(name)
