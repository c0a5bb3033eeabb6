"""Judges an output that is a little beyond the standard bound as that of several variants, and prints what is found."""

import sys
from dataclasses import replace

import numpy as np
import torch

from oracles import float64
from oracles.formats import FLOAT32, encode
from softcheck.judge import bounds, ulp
from softcheck.judge.by_contract import judge_call
from softcheck.judge.judge import STANDARD
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import load

ROW = np.linspace(-20.0, 0.0, 31)[None]
ROW = ROW.astype(np.float32).astype(np.float64)


def beyond(times):
    """The row's softmax with its last element ``times`` its standard bound off."""
    exact = float64.softmax(ROW)
    scaled = ulp.scaled(exact, FLOAT32)
    allowed = bounds.bounds(ROW, scaled, exact.values, bounds.model(STANDARD, FLOAT32)).elements
    output = exact.values.copy()
    output[0, 3] += times * allowed[0, 3] * scaled.ulp[0, 3]
    return encode(output, FLOAT32)


def found(name, times, *, of_cpu_library=False):
    variant = replace(load(name), declaration=Declaration())
    bits = encode(ROW, FLOAT32)
    judged = judge_call(variant, bits, beyond(times), FLOAT32, torch.device("cpu"), of_cpu_library=of_cpu_library)
    return sorted({str(v.kind) for v in judged.violations})


if __name__ == "__main__":
    said = [
        ("online undeclared", found("online", 1.15)),
        ("multi_row undeclared", found("multi_row", 1.15)),
        ("torch", found("torch", 1.15, of_cpu_library=True)),
        ("online far beyond", found("online", 100.0)),
    ]
    sys.stdout.writelines(f"{what}: {kinds}\n" for what, kinds in said)
