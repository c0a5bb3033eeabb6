"""Exact arithmetic on fractions, and shorthand for judging, shared by the judge's tests."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from oracles.formats import Bits, Format, Values, decode, encode
from oracles.reference import Reference
from softcheck.contract import FindingKind, Violation
from softcheck.judge.histogram import histogram
from softcheck.judge.judge import judge, reference
from softcheck.judge.measurement import Measurement


def exact_floor_log2(r: Fraction) -> int:
    k = r.numerator.bit_length() - r.denominator.bit_length()
    return k if Fraction(2) ** k <= r else k - 1


def exact_ulp(r: Fraction, fmt: Format) -> Fraction:
    """The definition of docs/ulp.md, on fractions."""
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


def inconsistencies(found: Measurement) -> list[str]:
    """Figures of one measurement that can't all be true, in words."""
    counts = {v.kind: v.count for v in found.violations}
    elements, errors = found.elements, found.histogram
    rows, special = found.rows, found.special_rows
    claims = {
        "each element with an error is in one bin": sum(errors.values()) == elements
        and min(errors.values(), default=1) > 0,
        "there are no more elements than the shape holds": elements <= rows * found.columns,
        "a sum without violations has no finding": counts.get(FindingKind.SUM_VIOLATION, 0) == found.sum_violations,
        "flushed elements have errors": 0 <= found.flushed <= elements,
        "rows are special, and masked, and judged again, at most once": (
            found.fully_masked_rows <= special <= rows
            and found.special_mismatches <= special
            and found.rejudged_rows <= rows
        ),
        "what has no elements has no figures": (
            (elements == 0) == (found.max_ulp is None) == (found.max_ulp_ftz is None)
            and (elements > 0 or (found.ulp_sum == 0 and found.max_bound_share is None))
        ),
        "a sum that breaks its promise was measured": found.sum_violations == 0 or bool(found.max_sum_deviation),
        "each kind is told once, with a count": len(counts) == len(found.violations) and 0 not in counts.values(),
    }
    if found.max_ulp is not None and found.max_ulp_ftz is not None:
        largest = found.max_ulp.value
        # The device judge's errors are within 1e-6 ULP, relative for those above 1.
        slack = 1e-9 * largest if found.judged_in == "numpy" else 1e-6 * max(1.0, largest)
        (top,) = histogram(np.array([largest]))
        claims |= {
            "the sum holds the maximum, and none is above it": (
                largest - slack <= found.ulp_sum <= elements * (largest + slack)
            ),
            "the maximum is in the last bin": abs(max(errors, default=-2) - top) <= (found.judged_in != "numpy"),
            "a format without subnormals has no larger error": 0 <= found.max_ulp_ftz <= largest * (1 + 1e-6),
            "what is flushed is off by half an ULP": found.flushed == 0 or largest >= 0.5,
        }
    share = 0.0 if found.max_bound_share is None else found.max_bound_share.value
    exceeding = [v for v in found.violations if v.kind is FindingKind.ULP_EXCEEDS_BOUND]
    claims["what exceeds its bound is the largest share"] = (share > 1) == bool(exceeding) and all(
        v.share is None or abs(v.share - share) <= 1e-6 * share for v in exceeding
    )
    return [claim for claim, holds in claims.items() if not holds]
