"""Exact arithmetic on fractions, and shorthand for judging, shared by the judge's tests."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from oracles.formats import Bits, Format, Values, decode, encode
from oracles.reference import Reference
from softcheck.contract import FindingKind, Violation
from softcheck.judge.judge import judge, reference
from softcheck.judge.measurement import Measurement


def exact_floor_log2(r: Fraction) -> int:
    k = r.numerator.bit_length() - r.denominator.bit_length()
    return k if Fraction(2) ** k <= r else k - 1


def exact_ulp(r: Fraction, fmt: Format) -> Fraction:
    """The definition of docs/design.md section 3, on fractions."""
    exponent = fmt.min_exponent if r == 0 else max(exact_floor_log2(r), fmt.min_exponent)
    return Fraction(2) ** (exponent - fmt.precision + 1)


def exact_ulp_error(y: float, r: Fraction, fmt: Format) -> Fraction:
    return abs(Fraction(y) - r) / exact_ulp(r, fmt)


def reference_value(reference: Reference, row: int, column: int) -> Fraction:
    high, low = float(reference.high[row, column]), float(reference.low[row, column])
    return (Fraction(high) + Fraction(low)) * Fraction(2) ** int(reference.exponent[row, column])


def matrix(rows: Sequence[Sequence[float]] | Values, fmt: Format) -> Bits:
    return encode(np.array(rows, dtype=np.float64), fmt)


def rounded(bits: Bits, fmt: Format, fully_masked: str = "nan") -> Bits:
    """The correctly rounded output, but for ties that float64 can't tell."""
    return encode(reference(decode(bits, fmt), fmt, fully_masked).values, fmt)


def kinds(measurement: Measurement) -> set[FindingKind]:
    return {v.kind for v in measurement.violations}


def violation(measurement: Measurement, kind: FindingKind) -> Violation:
    (found,) = [v for v in measurement.violations if v.kind is kind]
    return found


def judged(
    rows: Sequence[Sequence[float]] | Values, output: Sequence[Sequence[float]] | Values, fmt: Format
) -> Measurement:
    """Judges output values, each rounded to the format, for logits rounded likewise."""
    return judge(matrix(rows, fmt), matrix(output, fmt), fmt)


def hard(fmt: Format) -> Bits:
    """Rows whose sum or answers lie next to powers of two, overflowing and vanishing distances, and subnormal answers."""
    top, least, inf = fmt.max, fmt.least_subnormal, float("inf")
    rows = [
        [top, -top, top * 0.75, 0.0, -top, top],
        [0.0, -87.0, -100.0, -103.9, -110.0, -125.0],
        [0.0, -9.0, -9.7, -10.4, -11.1, -17.3],
        [1.0, 1.0, 1.0, 1.0, -40.0, -60.0],
        [1.0, 1.0, 1.0, 1.0, -16.0, -inf],
        [1.0, 1.0, 1.0, 1.0, -22.5, -23.0],
        [2.0, 2.0, 2.0, 1.9990, -3.5, -4.75],
        [5.0, -inf, -inf, -inf, -inf, -inf],
        [0.0, -0.0, least, -least, 2 * least, -inf],
        [0.0, -(2.0**-20), -50.0, -inf, -inf, -inf],
        [least, -least, -88.5, -90.25, -91.0, -1.0],
        [100.0, 99.0, 3.0, -4.0, 12.5, -19.0],
    ]
    return matrix(rows, fmt)


def off_by_one_ulp(right: Bits) -> Iterator[Bits]:
    """Outputs for ``hard``: the unit of their error tells on which side of a power of two a judge takes the answer to lie.

    Errors of 1 ULP but for 2^-100 are at the edge of a bin of the histogram.
    """
    for column, step in ((0, -1), (0, 1), (4, 1)):
        output = right.copy()
        output[:, column] += np.array(step).astype(output.dtype)
        yield output
