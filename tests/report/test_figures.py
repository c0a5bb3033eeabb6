"""Figures as text: printed bounds are true, and nothing unmeasured is 0."""

import math
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_reports import INTERPRETED, PASSING

from softcheck.report import content, figures

DASH = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, DASH),
        (0.0, "0"),
        (0.50137, "0.501"),
        (9.9996, "10.000"),
        (45.25, "45.2"),
        (812.0, "812.0"),
        (12345.6, "12346"),
        (1234567.0, "1.2e+6"),
        (0.00039, "3.9e-4"),
        (5e-324, "5.0e-324"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (-0.25, "-0.250"),
    ],
)
def test_figure(value, expected):
    assert figures.figure(value) == expected


@given(st.floats(min_value=0, allow_infinity=False))
def test_a_lower_bound_is_never_printed_larger_than_it_is(value):
    result = msgspec.structs.replace(PASSING, max_ulp=value)
    sense, text = figures.max_ulp(result).split()
    assert sense == "≥"
    assert Decimal(text) <= Decimal(repr(value))
    assert len(text) <= 8


def test_no_figure_of_a_table_is_printed_above_the_maximum():
    result = msgspec.structs.replace(
        PASSING, max_ulp=1365.6, mean_ulp=1365.6, p999_ulp=1365.6, max_ulp_ftz=1365.6, flushed=1
    )
    cells = {column.title: column.cell(result) for column in content.columns(INTERPRETED)}
    assert cells["max ULP"] == "≥ 1365"
    assert "; 1365 ULP where flushed" in content.worst_element(result)
    assert figures.max_ulp_of_samples(1365.6) == "≥ 1365"


def test_a_maximum_over_everything_is_an_equality():
    assert figures.max_ulp(msgspec.structs.replace(PASSING, ulp_is="exact")) == "= 0.501"
    assert figures.max_ulp(msgspec.structs.replace(PASSING, max_ulp=None)) == DASH


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1.0, "1.00"),
        (1.0001, "1.01"),
        (0.9999, "0.99"),
        (0.42, "0.42"),
        (3938.31, "3939"),
        (None, DASH),
        (math.inf, "inf"),
    ],
)
def test_a_broken_bound_never_reads_as_kept(share, expected):
    assert figures.bound_share(share) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (42.4, "42 s"), (119.4, "119 s"), (130.2, "2 min 10 s")]
)
def test_duration(seconds, expected):
    assert figures.duration(seconds) == expected


def test_speeds_and_ratios():
    assert figures.speed(None) == figures.ratio(None) == DASH
    assert (figures.speed(2545.3), figures.speed(12.34)) == ("2545", "12.3")
    assert figures.ratio(2.2213) == "2.22\N{MULTIPLICATION SIGN}"
    assert (figures.plural(1, "case"), figures.plural(2, "case")) == ("1 case", "2 cases")
