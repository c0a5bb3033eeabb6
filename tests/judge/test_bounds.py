"""The bound of docs/bounds.md against a direct computation with mpmath, and what each option of the arithmetic means."""

import itertools
from typing import Any

import mpmath
import numpy as np
import pytest

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format, decode, encode
from softcheck.judge.judge import reference
from softcheck.numbers.model import Model, depth
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.bounds import bounds, sum_allowance
from softcheck.operations.ulp import scaled

ALL = list(FORMATS.values())
SCALED = {"scaled_logits": True}


def computed(rows: Any, fmt: Format, **options: Any) -> Any:
    values = decode(encode(np.array(rows, dtype=np.float64), fmt), fmt)
    exact = reference(values, fmt)
    return bounds(values, scaled(exact, fmt), exact.values, model(Arithmetic(**options), fmt))


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_standard_bound_equals_the_formula(fmt: Format) -> None:
    row = np.array([0.0, -1.0, -2.5, 3.0, 2.75, -8.0, 3.0, float("-inf")])
    mp = mpmath.mp.clone()
    mp.prec = 200
    u = mp.mpf(2) ** (-53 if fmt is FLOAT64 else -24)
    tau = 8 * mp.mpf(2) ** (-1074 if fmt is FLOAT64 else -149)
    d = [mp.mpf(3) - mp.mpf(float(x)) for x in row[:-1]]
    total = mp.fsum(mp.exp(-x) for x in d)
    g = [mp.exp(-x) / total for x in d]
    a = [(2 + mp.mpf("0.224")) * u * x + (5 * u if x else 0) for x in d]
    mean = mp.fsum(p * q for p, q in zip(g, a, strict=True))
    found = computed([row], fmt)
    roundings = mp.mpf(0)
    for j, (p, q) in enumerate(zip(g, a, strict=True)):
        b = q + mean + 7 * u + 5 * u
        ulp = mp.mpf(2) ** (max(int(mp.floor(mp.log(p, 2))), fmt.min_exponent) - fmt.precision + 1)
        expected = p * mp.expm1(b) + tau
        half = ulp / 2 * (1 + b) if fmt.width == 16 else 0
        # The masked element is exactly 0 and never rounds.
        roundings += ulp / 2
        assert float((expected + half) / ulp) == pytest.approx(found.elements[0, j], rel=2e-6)
    assert found.sums[0] == pytest.approx(float(roundings + 12 * u + 8 * tau), rel=2e-6)


def test_depth() -> None:
    assert [depth(n) for n in (0, 1, 2, 3, 32, 33, 672, 673, 8192, 131072)] == [0, 0, 1, 2, 31, 31, 31, 32, 266, 4106]
    assert all(depth(n) <= max(0, n - 1) for n in range(3000))
    assert all(depth(n) <= depth(n + 1) for n in range(3000))


@pytest.mark.parametrize("threads", [32, 64, 128, 256, 512, 1024])
def test_depth_covers_tiled_kernels(threads: int) -> None:
    for tile, columns in itertools.product((2**k for k in range(5, 18)), (33, 100, 781, 1024, 5000, 131072)):
        if tile < threads:
            continue
        longest = (
            min(tile, -(-columns // threads) * threads) // threads - 1 + threads.bit_length() - 1 + -(-columns // tile)
        )
        assert longest <= depth(columns) or columns - 1 <= depth(columns)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize(
    "row",
    [
        [0.0],
        [float("-inf"), 5.0],
        [-1e30, 1e30, 0.0],
        [0.0, -800.0, -90.0, -110.0],
        [1e8, 1e8, -1e8],
        [65504.0, -65504.0],
    ],
)
def test_bounds_are_finite_and_positive(fmt: Format, row: list[float]) -> None:
    row = [max(min(x, fmt.max), -fmt.max) if np.isfinite(x) else x for x in row]
    for options in ({}, {"exp": "prescaled_ex2_approx"}, {"rescales": True}, {"intermediate": "input"}, SCALED):
        found = computed([row], fmt, **options)
        assert np.all(found.elements > 0)
        assert np.all(np.isfinite(found.elements))
        assert np.all(np.isfinite(found.sums))


def test_extreme_float64_logits_overflow_nothing() -> None:
    found = computed([[FLOAT64.max, -FLOAT64.max, 0.0], [float("-inf"), -FLOAT64.max, FLOAT64.max]], FLOAT64)
    assert np.all(np.isfinite(found.elements))
    assert np.all(found.elements > 0)


ROW = [np.linspace(-9, 2, 300)]


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
@pytest.mark.parametrize(
    "looser",
    [
        {"exp": "prescaled_ex2_approx"},
        SCALED,
        {"division": "reciprocal"},
        {"rescales": True},
        {"intermediate": "input"},
        {"accumulation": "input"},
    ],
)
def test_looser_arithmetic_allows_more(fmt: Format, looser: dict[str, Any]) -> None:
    loose, standard = computed(ROW, fmt, **looser).elements, computed(ROW, fmt).elements
    if fmt is FLOAT32 and set(looser) & {"intermediate", "accumulation"}:
        # The input's type is float32 already.
        assert np.array_equal(loose, standard)
    elif looser.get("intermediate") == "input":
        # 16-bit intermediates are not rounded once more, but each of them has lost far more.
        assert np.all(loose > standard)
    else:
        assert np.all(loose >= standard)
        assert np.any(loose > standard)


def test_flushing_allows_the_loss_of_subnormal_results() -> None:
    row = [[0.0, -95.0]]
    assert computed(row, FLOAT32).elements[0, 1] < 9
    assert computed(row, FLOAT32, flush_to_zero=True).elements[0, 1] > 2**22
    assert computed(row, BFLOAT16, flush_to_zero=True).elements[0, 1] > 2**6


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_subnormal_results_may_err_by_a_few_least_subnormals(fmt: Format) -> None:
    low = (fmt.min_exponent - fmt.precision + 2) * float(np.log(2))
    found = computed([[0.0, low]], fmt).elements[0, 1]
    if fmt.width == 16:
        assert 0.5 <= found < 0.51
    else:
        assert 8 <= found < 8.01


def test_logits_far_below_the_maximum_must_vanish() -> None:
    for row in ([0.0, -1e4], [0.0, -3e38], [0.0, float("-inf")]):
        assert computed([row], BFLOAT16).elements[0, 1] < 0.6
        assert computed([row], FLOAT32).elements[0, 1] < 9


@pytest.mark.parametrize("tighter", [{"exp": "libdevice"}, {"division": "div_rn"}, {"accumulation": "float64"}])
def test_tighter_arithmetic_allows_less(tighter: dict[str, Any]) -> None:
    assert np.all(computed(ROW, FLOAT32, **tighter).elements < computed(ROW, FLOAT32).elements)


def test_float64_intermediates_round_once_at_the_end() -> None:
    found = computed(ROW, FLOAT32, intermediate="float64", accumulation="float64").elements
    assert np.all((found > 0.5) & (found < 0.5001))


def test_prescaled_bound_grows_with_the_logits_themselves() -> None:
    near, far = [[0.0, 1.0, -1.0]], [[4096.0, 4097.0, 4095.0]]
    assert computed(far, FLOAT32).elements == pytest.approx(computed(near, FLOAT32).elements)
    prescaled = {"exp": "prescaled_ex2_approx"}
    assert np.all(computed(far, FLOAT32, **prescaled).elements > 100 * computed(near, FLOAT32, **prescaled).elements)
    # At 1e9 the exponent's error is in the hundreds: an answer that should underflow may come out as anything.
    assert computed([[1e9, 1e9 - 192]], FLOAT32, **prescaled).elements[0, 1] * 2.0**-149 >= 1
    assert computed([[1e10, 1e10 - 1024]], FLOAT32, **prescaled).elements[0, 1] * 2.0**-149 >= 1
    # 1024 below the maximum nothing is left of it, though a fused kernel's sum may be e^-66 and divide what underflowed.
    # The rounding error of fl(1e9 log2 e), at most 2^-24 of it, is all that the exponent of the maximum may be off.
    assert np.exp(59.6) < computed([[1e9, 1e9 - 1024]], FLOAT32, **prescaled).elements[0, 1] < 1e-14 * 2.0**149


def test_scaled_logits_err_by_one_rounding_of_each_product() -> None:
    """Rows of two equal logits: nothing but the products' roundings, of the row's elements and of its sum."""
    u, x = 2.0**-24, 300.0
    row = [[x, x]]
    more = computed(row, FLOAT32, **SCALED).elements - computed(row, FLOAT32).elements
    # A = 2 u |x| + 5 u of the element, and as much of the mean; g / ulp(g) is 2^23.
    assert more[0] == pytest.approx(2 * (2 * u * x + 5 * u) * 2.0**23, rel=1e-3)
    prescaled = {"exp": "prescaled_ex2_approx"}
    both = computed(row, FLOAT32, **SCALED, **prescaled).elements - computed(row, FLOAT32, **prescaled).elements
    assert both[0] == pytest.approx(2 * 2 * u * x * 2.0**23, rel=2e-3)


def test_scaled_logits_near_zero_err_as_any() -> None:
    far = [[0.0, -30.0]]
    more = computed(far, FLOAT32, **SCALED).elements[0, 1] / computed(far, FLOAT32).elements[0, 1]
    # (2.224 + 1) 30 u + 5 u, 5 u of the maximum's own and the common 6 u, in place of 2.224 30 u + 5 u and 6 u.
    assert more == pytest.approx((3.224 * 30 + 16) / (2.224 * 30 + 11), rel=0.01)


def test_half_an_ulp_is_widened_where_earlier_errors_cross_a_power_of_two() -> None:
    # 2^15 columns summed in bfloat16: earlier errors are many ULPs, and may carry a result into another binade.
    wide = computed([np.zeros(2**15)], BFLOAT16, accumulation="input")
    assert np.all(wide.rounding > 1)
    narrow = computed([np.zeros(64)], BFLOAT16)
    assert np.all((narrow.rounding >= 0.5) & (narrow.rounding < 0.5001))


def test_sums_of_equal_float16_logits_may_legitimately_vanish() -> None:
    """2^25 equal logits: each result, half the least subnormal, correctly rounds to 0, and so the sum is 0."""
    columns = 2**25
    allowed = sum_allowance(np.array([columns * 2.0**-25]), columns, np.array([0.0]), model(Arithmetic(), FLOAT16))
    assert allowed[0] >= 1
    # Half as many results, 2^-24 each, are exact: a zero sum is wrong by twice what is allowed.
    fewer = sum_allowance(
        np.array([columns // 2 * 2.0**-25]), columns // 2, np.array([0.0]), model(Arithmetic(), FLOAT16)
    )
    assert fewer[0] == pytest.approx(0.5, rel=1e-6)


def with_model(row: list[float], **constants: float) -> Any:
    """Bounds of one float32 row for an arithmetic that errs in nothing but what is given."""
    exactly = dict.fromkeys(
        ("exponent", "exponential", "addition", "denominator", "division", "rescale", "underflow"), 0.0
    )
    values = np.array([row])
    exact = reference(values, FLOAT32)
    chosen = Model(**(exactly | constants), rounds_result=False, prescaled=False)
    return bounds(values, scaled(exact, FLOAT32), exact.values, chosen), exact.values


def test_the_sums_error_is_that_of_its_convex_mean() -> None:
    """If a few exponentials err by much, all upwards, the sum rises by more than their mean error says."""
    found, g = with_model([0.0] + [-6.0] * 45, exponent=0.1)
    total = g[0, 0] + 45 * g[0, 1] * np.exp(0.1 * 6)
    error = g[0, 0] - g[0, 0] / total
    assert found.elements[0, 0] * 2.0**-24 >= error
    mean = np.expm1(45 * g[0, 1] * 0.6)
    assert g[0, 0] * mean < error, "the mean error would not have been enough"


def test_underflow_is_enlarged_by_a_sum_that_is_too_small() -> None:
    def underflow(columns: int) -> float:
        found = computed([[0.0] * columns + [-200.0]], BFLOAT16, accumulation="input")
        return float((found.elements - found.rounding)[0, -1])

    # 32 additions in bfloat16 err by at most a factor exp(32 / 256), some 1034 by exp(1034 / 256).
    assert underflow(2**15) > 40 * underflow(32)


def test_errors_beyond_every_exponent_promise_nothing() -> None:
    # Eight additions that may each be wrong by a factor e^100, and a result of e^-740 / 8: even 1 can't be excluded.
    found, g = with_model([0.0] * 8 + [-740.0], addition=100.0)
    assert g[0, -1] > 0
    assert found.elements[0, -1] * 2.0**-149 >= 1
    found, _ = with_model([0.0] * 8 + [float("-inf")], addition=100.0)
    assert found.elements[0, -1] == 0
