"""Kernels that call single device functions of the device judge."""

import triton
import triton.language as tl

from softcheck.judge.device.elements import leading
from softcheck.judge.device.exp64 import clamped, exp_minus


@triton.jit
def exp_kernel(distances, out, DEGREE: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, exp_minus(clamped(tl.load(distances + place)), DEGREE, NVIDIA=False))


@triton.jit
def leading_kernel(values, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place, leading(tl.load(values + place)))
