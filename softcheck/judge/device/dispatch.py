"""Choice of the scan that looks at rows first: by their width, and by the speed of the device's float64."""

import os
from typing import Literal, get_args

import torch

from softcheck.errors import UsageError
from softcheck.judge.device import pairs, rates, scan, scan_double_float, short
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.reduction import Scan

JudgedIn = Literal["float64", "double-float32"]

VARIABLE = "SOFTCHECK_JUDGE_ARITHMETIC"
"""Environment variable that names an arithmetic."""


def arithmetic_of(constants: Constants, device: torch.device, wanted: JudgedIn | None = None) -> JudgedIn:
    """Chooses the arithmetic of the scan: ``wanted``, or the environment variable's, or the faster by measured rates.

    It is float64 for rows of two columns, whose scan takes one exponential for both, and for rows wider than
    MAX_COLUMNS, which no scan looks at. It is also float64 if nothing can be measured. Raises UsageError if the
    variable names no arithmetic.
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
    """Scans ``y`` as the softmax of ``x``, both [rows, columns], in the arithmetic that ``arithmetic_of`` chose.

    ``programs`` is the grid for rows of more than two columns; by default the programs fill the device.
    """
    if pairs.suits(constants):
        return pairs.scan_pairs(x, y, constants, masked_gives_zero=masked_gives_zero)
    if judged_in == "double-float32":
        return scan_double_float.scan(x, y, constants, programs=programs)
    if short.suits(constants):
        return short.scan_short(x, y, constants, masked_gives_zero=masked_gives_zero, programs=programs)
    return scan.scan(x, y, constants, programs=programs)
