"""The generic comparer written anew with numpy, to which the kernel is held."""

import numpy as np

from oracles.formats import decode
from softcheck.calling.call import to_bits
from softcheck.judge.device.compare import Compared, Extremum
from softcheck.judge.histogram import histogram


def compared_by_numpy(flat, fmt):
    """The comparer's figures by numpy, from output, exact values, limits, and a scale if there is one."""
    y = decode(to_bits(flat[0], fmt), fmt)
    r, limits, unit = (
        tensor.numpy().astype(np.float64) for tensor in (flat[1], flat[2], flat[-1 if len(flat) > 3 else 1])
    )
    finite = np.isfinite(y) & np.isfinite(r)
    wrong_nan = np.isnan(y) != np.isnan(r)
    overflows = np.isinf(y) & (np.abs(r) >= fmt.max) & (np.signbit(y) == np.signbit(r))
    wrong_inf = (np.isinf(y) | np.isinf(r)) & ~(np.isnan(y) | np.isnan(r) | overflows)
    with np.errstate(all="ignore"):
        exponent = np.where(unit == 0, fmt.min_exponent, np.frexp(unit)[1] - 1)
        quantum = np.maximum(exponent, fmt.min_exponent) - (fmt.precision - 1)
        errors = np.where(finite, np.abs(np.ldexp(y, -quantum) - np.ldexp(r, -quantum)), -1.0)
        shares = np.where(limits > 0, errors / limits, np.where(errors > 0, np.inf, 0.0))
    shares[~finite] = -1.0

    def extremum(values):
        at = int(values.argmax()) if len(values) else 0
        return Extremum(float(values[at]), at) if finite.any() else None

    def first(flags):
        return int(flags.argmax()) if flags.any() else None

    return Compared(
        elements=int(finite.sum()),
        error=extremum(errors),
        share=extremum(shares),
        exceeding=int((shares > 1).sum()),
        error_sum=float(errors[finite].sum()),
        histogram=histogram(errors[finite]),
        nan_mismatches=int(wrong_nan.sum()),
        nan_mismatch=first(wrong_nan),
        inf_mismatches=int(wrong_inf.sum()),
        inf_mismatch=first(wrong_inf),
    )
