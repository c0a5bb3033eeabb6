"""Runs a variant on placed inputs under Triton's interpreter: (spec, dtype, [(bits, layout)]) to output bits."""

import torch
from child_loop import serve

from oracles.formats import FORMATS
from softcheck.calling.call import place, to_bits
from softcheck.probes.poison import nan_filled
from softcheck.variants.registry import load


def run(spec, dtype, inputs):
    fmt = FORMATS[dtype]
    function = load(spec).function
    outputs = []
    for bits, layout in inputs:
        x = place(bits, fmt, layout, torch.device("cpu")).view
        with nan_filled():
            y = function(x)
        assert y.shape == x.shape
        assert y.dtype == x.dtype
        outputs.append(to_bits(y, fmt))
    return outputs


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(run)
