"""Which scan looks at rows first: by their width, and by how fast the device's float64 is."""

import os
from typing import Literal, get_args

import torch

from softcheck.errors import UsageError
from softcheck.judge.device import pairs, rates, scan, scan_double_float
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.reduction import Scan

JudgedIn = Literal["float64", "double-float32"]

VARIABLE = "SOFTCHECK_JUDGE_ARITHMETIC"
"""Environment variable that names one of them."""


def arithmetic_of(constants: Constants, device: torch.device, wanted: JudgedIn | None = None) -> JudgedIn:
    """The arithmetic of the scan: ``wanted``, or what the environment variable says, or the faster by measured rates.

    float64 for rows of two columns, whose scan takes one exponential for both, and for rows of more columns than one program
    holds, which no scan looks at; also where nothing can be measured. Raises UsageError where the variable names none.
    """
    named = wanted or os.environ.get(VARIABLE) or None
    found = next((name for name in get_args(JudgedIn) if name == named), None)
    if named is not None and found is None:
        raise UsageError(f"{VARIABLE} is {named!r}, expected one of: {', '.join(get_args(JudgedIn))}; or unset it")
    if pairs.suits(constants) or constants.columns > scan.MAX_COLUMNS:
        return "float64"
    if found is not None:
        chosen: JudgedIn = found
        return chosen
    if device.type != "cuda":
        return "float64"
    ratio = rates.rate_ratio(torch.cuda.current_device() if device.index is None else device.index)
    return "double-float32" if ratio < rates.SLOW else "float64"


def scan_in(
    judged_in: JudgedIn,
    x: torch.Tensor,
    y: torch.Tensor,
    constants: Constants,
    *,
    masked_gives_zero: bool,
    programs: int | None = None,
) -> Scan:
    """Scans ``y`` as the softmax of ``x``, both [rows, columns], in the arithmetic that ``arithmetic_of`` gave.

    ``programs`` is the grid for rows of more than two columns, by default as many as fill the device.
    """
    if pairs.suits(constants):
        return pairs.scan_pairs(x, y, constants, masked_gives_zero=masked_gives_zero)
    if judged_in == "double-float32":
        return scan_double_float.scan(x, y, constants, programs=programs)
    return scan.scan(x, y, constants, programs=programs)
