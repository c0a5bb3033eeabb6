"""Judges an output that is a little beyond the standard bound as that of several variants, and prints what is found."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from oracles import float64
from oracles.formats import FLOAT32, encode
from softcheck.judge.by_contract import judge_call
from softcheck.judge.judge import STANDARD
from softcheck.operations import bounds, ulp
from softcheck.operations.arithmetic import model
from softcheck.variants.declaration import Declaration
from softcheck.variants.registry import load

KERNELS = Path(__file__).with_name("torch_sums_kernels.py")

ROW = np.linspace(-20.0, 0.0, 31)[None]
ROW = ROW.astype(np.float32).astype(np.float64)


def beyond(times):
    """The row's softmax with its last element ``times`` its standard bound off."""
    exact = float64.softmax(ROW)
    scaled = ulp.scaled(exact, FLOAT32)
    allowed = bounds.bounds(ROW, scaled, exact.values, model(STANDARD, FLOAT32)).elements
    output = exact.values.copy()
    output[0, 3] += times * allowed[0, 3] * scaled.ulp[0, 3]
    return encode(output, FLOAT32)


def absorbed():
    """A row whose small terms a sum in sequence loses, and the softmax that such a sum gives."""
    row = np.full((1, 65537), -17.5, dtype=np.float32)
    row[0, 0] = 0.0
    e = np.exp(row)
    total = np.add.accumulate(e, axis=1, dtype=np.float32)[:, -1:]
    return encode(row.astype(np.float64), FLOAT32), encode((e / total).astype(np.float64), FLOAT32)


def found(name, times, given=None, *, of_cpu_library=False):
    variant = replace(load(name), declaration=Declaration())
    bits, output = given or (encode(ROW, FLOAT32), beyond(times))
    judged = judge_call(variant, bits, output, FLOAT32, torch.device("cpu"), of_cpu_library=of_cpu_library)
    return sorted({str(v.kind) for v in judged.violations})


if __name__ == "__main__":
    said = [
        ("online undeclared", found("online", 1.15)),
        ("multi_row undeclared", found("multi_row", 1.15)),
        ("torch", found("torch", 1.15, of_cpu_library=True)),
        ("online far beyond", found("online", 100.0)),
        ("torch sums after a kernel", found(f"{KERNELS}:sums_with_torch", 1.0, absorbed())),
        ("a kernel sums after torch", found(f"{KERNELS}:sums_itself", 1.0, absorbed())),
    ]
    sys.stdout.writelines(f"{what}: {kinds}\n" for what, kinds in said)
