"""Figures of a case are those of its rows, in each of them the exact ones, and consistent with each other."""

import math
from collections.abc import Sequence
from fractions import Fraction

import flint
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_helpers import exact_floor_log2, exact_ulp, inconsistencies, matrix, rounded

from oracles import ball
from oracles.formats import FLOAT32, FORMATS, Bits, Format, Values, decode, encode
from oracles.reference import RowClass, classify
from softcheck.cases.case import Case
from softcheck.cases.corpus import default_corpora, load
from softcheck.judge.judge import judge
from softcheck.judge.measurement import Measurement, merge, moved
from softcheck.operations.ulp import LARGEST

ALL = list(FORMATS.values())
INF = math.inf
_BITS = 6000
"""Enough to tell logits apart that differ by float64's least number, to the third order."""


def exact_row(row: Values) -> list[Fraction]:
    """Softmax of an ordinary row, to 2^-2000 and in the right binade, by Arb; equal logits from the fraction."""
    finite = row[np.isfinite(row)]
    if (finite == finite[0]).all():
        share = Fraction(1, len(finite))
        return [share if np.isfinite(x) else Fraction(0) for x in row]
    found = []
    with flint.ctx.workprec(_BITS):
        for enclosure in ball.enclose(row, _BITS):
            ends = (end.man_exp() for end in (enclosure.lower(), enclosure.upper()))
            low, high = (Fraction(int(mantissa)) * Fraction(2) ** int(exponent) for mantissa, exponent in ends)
            assert low == high or exact_floor_log2(low) == exact_floor_log2(high)
            found.append(low)
    return found


def exact_bin(error: Fraction) -> int:
    """The definition of softcheck.judge.histogram on fractions."""
    scaled = error * 1024
    if scaled < 1:
        return 0
    octave = exact_floor_log2(scaled)
    return 1 + 64 * octave + math.floor((scaled / Fraction(2) ** octave - 1) * 64)


class Exact:
    """The figures of an output by fractions alone, element by element."""

    def __init__(self, bits: Bits, output: Bits, fmt: Format) -> None:
        self.errors: list[Fraction] = []
        self.if_flushing: list[Fraction] = []
        self.flushed = 0
        values = decode(bits, fmt)
        ordinary = classify(values) == RowClass.ORDINARY
        for row, outputs in zip(values[ordinary], decode(output, fmt)[ordinary], strict=True):
            for r, y in zip(exact_row(row), outputs, strict=True):
                if np.isfinite(y):
                    self._add(r, Fraction(float(y)), fmt)

    def _add(self, r: Fraction, y: Fraction, fmt: Format) -> None:
        least_normal, least = Fraction(2) ** fmt.min_exponent, Fraction(fmt.least_subnormal)
        error = min(abs(y - r) / exact_ulp(r, fmt), Fraction(LARGEST))
        self.errors.append(error)
        native = r < least_normal and y in (0, least_normal)
        self.if_flushing.append(abs(y - r) / least_normal if native else error)
        self.flushed += y == 0 and least / 2 < r < least_normal

    def counts_up_to(self, b: int, relative: Fraction) -> int:
        """Elements in the bins up to ``b``, with all errors that much larger."""
        return sum(exact_bin(error * (1 + relative)) <= b for error in self.errors)


def tiny(fmt: Format) -> st.SearchStrategy[float]:
    return st.integers(-200, 200).map(lambda n: n * fmt.least_subnormal)


@st.composite
def logits(draw: st.DrawFn, fmt: Format) -> list[float]:
    """A row whose answers lie next to powers of two, below the normal range, or anywhere."""
    columns = draw(st.sampled_from([1, 2, 2, 3, 4, 4, 8, 9]))
    offset = draw(st.sampled_from([0.0, 0.0, 0.0, 1.0, -3.0]))
    near = (
        tiny(fmt) if offset == 0 else st.sampled_from([offset, offset + fmt.unit_roundoff, offset - fmt.unit_roundoff])
    )
    vanishing = -math.log(fmt.least_normal)
    far = st.sampled_from([-20.0, -33.0, -40.0, -100.0, -800.0, -1300.0, -INF, -vanishing, -vanishing - 5])
    anything = st.floats(-30, 3)
    elements = draw(st.sampled_from([near, near, st.one_of(near, far), st.one_of(near, far, anything), anything]))
    row = draw(st.lists(elements, min_size=columns, max_size=columns))
    row[draw(st.integers(0, columns - 1))] = offset
    return row


@st.composite
def outputs(draw: st.DrawFn, rows: Sequence[Sequence[float]], fmt: Format) -> tuple[Bits, Bits]:
    """Bits of a matrix and of outputs near the answers, at 0, or at the least normal number."""
    width = max(map(len, rows))
    bits = matrix([[*row, *[-INF] * (width - len(row))] for row in rows], fmt)
    right = rounded(bits, fmt)
    output = right.copy()
    for place in np.ndindex(*output.shape):
        step = draw(st.sampled_from([0, 0, 0, 1, 1, -1, 2, 5, "zero", "least", "one"]))
        if isinstance(step, str):
            output[place] = encode(np.array({"zero": 0.0, "least": fmt.least_normal, "one": 1.0}[step]), fmt)
        elif int(right[place]) + step >= 0:
            output[place] = int(right[place]) + step
    return bits, output


def by_row(bits: Bits, output: Bits, fmt: Format) -> Measurement:
    return merge(moved(judge(bits[i : i + 1], output[i : i + 1], fmt), i.__add__) for i in range(len(bits)))


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_figures_next_to_powers_of_two_are_the_exact_ones_however_rows_are_batched(
    fmt: Format, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(logits(fmt), min_size=1, max_size=3))
    bits, output = data.draw(outputs(rows, fmt))
    together, apart = judge(bits, output, fmt), by_row(bits, output, fmt)
    exact = Exact(bits, output, fmt)
    assert together.histogram == apart.histogram
    assert together.rejudged_rows == apart.rejudged_rows
    for found in (together, apart):
        assert inconsistencies(found) == []
        assert (found.elements, found.flushed) == (len(exact.errors), exact.flushed)
        total = float(min(sum(exact.errors), Fraction(LARGEST)))
        assert found.ulp_sum == pytest.approx(total, rel=1e-9, abs=1e-6)
        assert found.max_ulp is not None
        assert found.max_ulp.value == pytest.approx(float(max(exact.errors)), rel=1e-9, abs=1e-6)
        assert found.max_ulp_ftz == pytest.approx(float(max(exact.if_flushing)), rel=1e-9, abs=1e-6)
        # What lies at a bin's edge may be in either.
        seen = 0
        for b in sorted(found.histogram):
            seen += found.histogram[b]
            edge = Fraction(2) ** -20
            assert exact.counts_up_to(b, edge) <= seen <= exact.counts_up_to(b, -edge)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_the_figures_of_any_output_are_consistent(fmt: Format, data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 9)))
    numbers = st.integers(0, 2**fmt.width - 1)
    common = matrix([[0.0, 1.0, 0.5, -1.0, INF, -INF, math.nan, -0.0, 2.0, -20.0, 0.25]], fmt)[0].tolist()
    size = shape[0] * shape[1]
    draw = st.lists(numbers | st.sampled_from(common), min_size=size, max_size=size)
    bits, output = (np.array(data.draw(draw), dtype=fmt.storage).reshape(shape) for _ in range(2))
    if data.draw(st.booleans()):
        right = rounded(bits, fmt)
        output = np.where(output % 3 > 0, right, output)
    for convention in ("nan", "zero"):
        whole = judge(bits, output, fmt, fully_masked=convention)
        assert inconsistencies(whole) == []
        parts = [judge(bits[i : i + 1], output[i : i + 1], fmt, fully_masked=convention) for i in range(shape[0])]
        if parts:
            merged = merge(parts)
            assert inconsistencies(merged) == []
            counts = ("elements", "histogram", "flushed", "sum_violations", "special_rows", "special_mismatches")
            assert {n: getattr(merged, n) for n in counts} == {n: getattr(whole, n) for n in counts}


def one_small_case_per_family() -> list[Case]:
    chosen: dict[tuple[str, str], Case] = {}
    for case in load(default_corpora()):
        if 0 < case.shape[0] * case.shape[1] <= 20_000:
            chosen.setdefault((case.family, case.dtype), case)
    return list(chosen.values())


@pytest.mark.parametrize("change", [0, 1, -1])
def test_the_figures_of_the_corpora_are_consistent_and_no_row_needs_the_better_oracle(change: int) -> None:
    for case in one_small_case_per_family():
        bits, fmt = case.bits(), case.format
        output = rounded(bits, fmt, "zero")
        changed = output + np.array(change).astype(fmt.storage)
        output = np.where(output > 0, changed, output)
        found = judge(bits, output, fmt, fully_masked="zero")
        assert inconsistencies(found) == [], case.id
        assert found.rejudged_rows == 0, case.id


def test_an_inconsistent_measurement_is_seen() -> None:
    bits = matrix([[0.0, 1.0], [0.0, -3.0]], FLOAT32)
    right = judge(bits, rounded(bits, FLOAT32) + np.uint32(1), FLOAT32)
    assert inconsistencies(right) == []
    assert right.max_ulp is not None
    for wrong in (
        {"elements": 5},
        {"ulp_sum": right.ulp_sum * 4},
        {"ulp_sum": 0.5},
        {"max_ulp": msgspec.structs.replace(right.max_ulp, value=9.0)},
        {"max_ulp_ftz": 7.0},
        {"flushed": 9},
        {"sum_violations": 1},
        {"special_mismatches": 1},
        {"histogram": {}},
    ):
        assert inconsistencies(msgspec.structs.replace(right, **wrong)) != [], wrong
