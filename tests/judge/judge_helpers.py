"""Exact arithmetic on fractions, and shorthand for judging, shared by the judge's tests."""

from collections.abc import Sequence
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
