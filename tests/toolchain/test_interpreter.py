"""Every bfloat16 number is read and rounded exactly where variants run."""

import numpy as np

from oracles.formats import BFLOAT16, FLOAT32, decode, encode
from softcheck.cases.case import Layout

COPY = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(output, x, COUNT: tl.constexpr, ROUND: tl.constexpr):
    lane = tl.arange(0, COUNT)
    value = tl.load(x + lane).to(tl.float32) * (1.0 + 1.0 / 256)
    tl.store(output + lane, value.to(tl.bfloat16, fp_downcast_rounding="rtne") if ROUND else value)

def implicit(x):
    output = torch.empty_like(x)
    kernel[(1,)](output, x, x.shape[1], False)
    return output

def explicit(x):
    output = torch.empty_like(x)
    kernel[(1,)](output, x, x.shape[1], True)
    return output
"""


def every_pattern():
    bits = np.arange(2**16, dtype=np.uint16)
    return bits[~np.isnan(decode(bits, BFLOAT16))]


def test_kernels_read_and_round_every_bfloat16(interpreted, tmp_path):
    file = tmp_path / "copy.py"
    file.write_text(COPY)
    bits = np.resize(every_pattern(), 2**16)[None]
    # The product with 1 + 2^-8 is a tie between neighbours for some patterns, rounded up or down for others.
    exact = (decode(bits, BFLOAT16) * (1 + 2.0**-8)).astype(np.float32).astype(np.float64)
    expected = encode(exact, BFLOAT16)
    for function in ("implicit", "explicit"):
        [output] = interpreted.ask(f"{file}:{function}", "bfloat16", [(bits, Layout())])
        assert np.array_equal(output, expected), function


LOOKING = """
import inspect, torch, triton, triton.language as tl

looked = 0
original = inspect.getmembers

def counting(*arguments):
    global looked
    looked += 1
    return original(*arguments)

inspect.getmembers = counting

@triton.jit
def total(x):
    return tl.sum(x, axis=0)

@triton.jit
def kernel(output, x, columns, COUNT: tl.constexpr):
    lane = tl.arange(0, COUNT)
    row = tl.load(x + tl.program_id(0) * columns + lane, mask=lane < columns, other=0.0)
    tl.store(output + tl.program_id(0) * columns + lane, row * 0.0 + total(row) + tl.max(row, axis=0), mask=lane < columns)

def sums(x):
    output = torch.empty_like(x)
    kernel[(x.shape[0],)](output, x, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return output

def patches(x):
    global looked
    before = looked
    sums(x)
    return torch.full_like(x, looked - before)

def twice(x):
    return sums(sums(x))
"""


def test_the_language_is_patched_once_in_a_launch_however_many_programs_call_device_functions(interpreted, tmp_path):
    file = tmp_path / "looking.py"
    file.write_text(LOOKING)
    few, many = (np.zeros((rows, 3), dtype=np.uint32) for rows in (2, 50))
    # The first launch also reads the kernels' source.
    inputs = [(rows, Layout()) for rows in (few, few, many)]
    [_, of_few, of_many] = interpreted.ask(f"{file}:patches", "float32", inputs)
    assert of_few.flat[0] == of_many.flat[0]
    ones = encode(np.arange(6.0).reshape(2, 3), FLOAT32)
    [output] = interpreted.ask(f"{file}:twice", "float32", [(ones, Layout())])
    assert decode(output, FLOAT32).tolist() == [[20.0] * 3, [68.0] * 3], "sum and maximum, then those of the answer"
