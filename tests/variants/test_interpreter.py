"""Every bfloat16 number is read and rounded exactly where variants run."""

import numpy as np

from oracles.formats import BFLOAT16, decode, encode
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
