"""The place where a weaker arithmetic leaves the standard contract, against the closed form for equal logits."""

import math

import pytest

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS
from softcheck.judge.contracts import COLUMNS, columns_beyond, departure, magnitude_beyond
from softcheck.operations.arithmetic import Arithmetic
from softcheck.variants.registry import load

PRESCALED = Arithmetic(exp="prescaled_ex2_approx")
NARROW_SUM = Arithmetic(accumulation="input")


def closed_form(fmt, per_logit=1.224):
    """|x| of equal logits: B = 2 (2 c |x| + 5 u) + h u + 5 u; in units of u, to first order."""
    u = 2.0**-53 if fmt is FLOAT64 else 2.0**-24
    h = math.ceil(COLUMNS / 32) + 10
    standard, slope, rest = h + 5.0, 4 * per_logit, 10 + h + 5.0
    # g / ulp(g) of g = 1/1025, in [2^-11, 2^-10).
    in_ulps = 2.0 ** (10 + fmt.precision) / COLUMNS
    if fmt.width >= 32:
        return (2 * standard - rest) / slope
    # Half an ulp twice over, in place of the float32 errors: they are small beside it, until they are half an ulp themselves
    # and the rounding may go to the next power of two.
    return (0.5 / in_ulps / u - rest) / slope


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32, FLOAT64], ids=lambda fmt: fmt.name)
def test_scaled_logits_leave_it_where_the_closed_form_says(fmt):
    assert magnitude_beyond(PRESCALED, fmt) == pytest.approx(closed_form(fmt), rel=0.05)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32, FLOAT64], ids=lambda fmt: fmt.name)
def test_a_factor_before_the_subtraction_costs_one_rounding(fmt):
    scaled = Arithmetic(scaled_logits=True)
    assert magnitude_beyond(scaled, fmt) == pytest.approx(closed_form(fmt, 1.0), rel=0.05)
    assert departure(scaled, fmt.name).endswith(": logits scaled before the maximum is subtracted")


@pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)
def test_the_standard_arithmetic_leaves_it_nowhere(fmt):
    assert departure(Arithmetic(), fmt.name) is None
    # Others with a bound of their own that is not weaker in the sense of docs/bounds.md.
    assert departure(Arithmetic(exp="libdevice", division="div_rn", rescales=True), fmt.name) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_sums_leave_it_from_the_first_addition_on(dtype):
    # One rounding to p bits of a sum is half an ulp of the quotient at 1/2, beside the half that the output costs.
    assert columns_beyond(NARROW_SUM, FORMATS[dtype]) == 2
    assert departure(NARROW_SUM, dtype) == f"from 2 columns on: sums in {dtype}"
    assert departure(Arithmetic(intermediate="input"), dtype) == f"from 2 columns on: intermediate values in {dtype}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_input_type_is_no_weakness_where_it_is_wide(dtype):
    assert departure(Arithmetic(accumulation="input", intermediate="input"), dtype) is None


def test_the_report_of_exp2_prescaled_names_what_was_computed():
    declared = load("exp2_prescaled").declaration.arithmetic
    for dtype in FORMATS:
        text = departure(declared, dtype)
        found = text.removeprefix("beyond |x| \N{ALMOST EQUAL TO} ").partition(":")[0].replace(",", "")
        assert float(found) == pytest.approx(closed_form(FORMATS[dtype]), rel=0.1)
