"""Softmax kernels whose arithmetic is not what they declare, or is declared by nobody; each says in its name what it does."""

import os

import torch
import triton
import triton.language as tl

from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.declaration import variant


@triton.jit
def kernel(output, x, columns, BLOCK: tl.constexpr, KIND: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    inside = lane < columns
    logits = tl.load(x + row * columns + lane, mask=inside, other=-float("inf"))
    single = logits.to(tl.float32)
    if KIND == "prescaled":
        scaled = single * 1.4426950408889634
        powers = tl.exp2(scaled - tl.max(scaled, axis=0))
    else:
        powers = tl.exp(single - tl.max(single, axis=0))
    summed = powers.to(tl.float16) if KIND == "narrow_sum" else powers
    total = tl.sum(summed, axis=0).to(tl.float32)
    if KIND == "reciprocal":
        powers *= tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [total], tl.float32, True, 1)
    else:
        powers /= total
    tl.store(output + row * columns + lane, powers, mask=inside)


def _launch(x, kind):
    x = x.contiguous()
    output = torch.empty_like(x)
    rows, columns = x.shape
    kernel[(rows,)](output, x, columns, triton.next_power_of_2(columns), kind, enable_fp_fusion=True)
    return output


@variant(dtypes=("float16", "float32"), arithmetic=Arithmetic())
def right(x):
    return _launch(x, "plain")


@variant(dtypes=("float16",), arithmetic=Arithmetic())
def sums_in_float16(x):
    return _launch(x, "narrow_sum")


@variant(dtypes=("float16", "float32"))
def sums_in_float16_undeclared(x):
    return _launch(x, "narrow_sum")


@variant(dtypes=("float16",), arithmetic=Arithmetic())
def prescaled_when_wide(x):
    return _launch(x, "prescaled" if x.shape[1] > 1000 else "plain")


@variant(dtypes=("float16",), arithmetic=Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True))
def declares_what_it_does(x):
    return _launch(x, "prescaled")


def approximate_reciprocal(x):
    return _launch(x, "reciprocal")


@variant(dtypes=("float16",), max_columns=2000)
def narrow_rows_only(x):
    return _launch(x, "plain")


def library(x):
    return torch.softmax(x, dim=-1)


def ends_its_process_when_wide(x):
    if x.shape[1] > 1000:
        os._exit(7)
    return _launch(x, "prescaled")


def raises(x):
    raise ValueError(f"no rows of {x.shape[1]}")
