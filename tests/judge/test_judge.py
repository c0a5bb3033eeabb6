"""Verdicts on right outputs, on wrong ones, and on peers' traps."""

import math

import numpy as np
import pytest
import torch
from judge_helpers import judged, kinds, matrix, rounded, violation

from oracles.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Format, decode, encode
from oracles.reference import Reference
from softcheck.contract import FindingKind
from softcheck.errors import UsageError
from softcheck.judge import judge as judge_module
from softcheck.judge.judge import judge, reference

ALL = list(FORMATS.values())
INF, NAN = math.inf, math.nan


def families(columns: int) -> np.ndarray:
    rng = np.random.default_rng(columns)
    ramp = np.linspace(0, 1, columns)
    mask = np.where(np.arange(columns) % 3 == 1, -INF, 1.0)
    return np.stack(
        [
            rng.standard_normal(columns) * 2,
            rng.standard_normal(columns) * 40,
            ramp * 90 - 45,
            ramp * -1e4,
            np.zeros(columns),
            np.full(columns, -6e4),
            np.where(np.arange(columns) == columns // 2, 30.0, -30.0),
            mask * rng.uniform(0.5, 8, columns),
            np.repeat([0.0, 1.0], [columns - columns // 2, columns // 2]),
        ]
    )


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("columns", [1, 2, 7, 64, 781])
def test_correctly_rounded_results_break_nothing(fmt: Format, columns: int) -> None:
    bits = matrix(families(columns), fmt)
    found = judge(bits, rounded(bits, fmt), fmt)
    assert found.violations == ()
    assert found.max_ulp is not None
    assert found.max_ulp.value <= 0.5
    assert found.max_bound_share is not None
    assert found.max_bound_share.value <= 1
    assert found.elements == bits.size
    assert sum(found.histogram.values()) == bits.size
    assert found.flushed == found.sum_violations == found.special_rows == found.special_mismatches == 0
    assert found.max_sum_deviation is not None


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_a_reference_given_or_not_gives_the_same_figures(fmt: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = matrix(np.concatenate([families(50)] * 3), fmt)
    output = rounded(bits, fmt) + fmt.storage.type(1)
    whole = judge(bits, output, fmt, reference=reference(decode(bits, fmt), fmt))
    assert judge(bits, output, fmt) == whole
    monkeypatch.setattr(judge_module, "_BLOCK_ELEMENTS", 100)
    in_blocks = judge(bits, output, fmt)
    assert in_blocks.ulp_sum == pytest.approx(whole.ulp_sum, rel=1e-9)
    assert in_blocks.violations == whole.violations
    assert (in_blocks.histogram, in_blocks.flushed) == (whole.histogram, whole.flushed)
    assert in_blocks.max_ulp is not None
    assert whole.max_ulp is not None
    # Which of two rows within the oracle's uncertainty shows the maximum may differ.
    assert in_blocks.max_ulp.value == pytest.approx(whole.max_ulp.value, rel=1e-6)


def test_figures_of_a_small_example() -> None:
    # Exact answer 0.5, 0.5; 0.5 + 2 ULP and 0.5 - 1 ULP of its binade, half a ULP of the one below.
    found = judged([[3.0, 3.0]], [[0.5 + 2**-10, 0.5 - 2**-12]], FLOAT16)
    assert found.max_ulp is not None
    assert (found.max_ulp.value, found.max_ulp.row, found.max_ulp.column) == (2.0, 0, 0)
    assert (found.max_ulp.input_bits, found.max_ulp.output_bits) == ("4200", "3802")
    assert found.ulp_sum == 2.5
    assert found.max_sum_deviation == 2**-10 - 2**-12
    assert kinds(found) == {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION}
    message = violation(found, FindingKind.ULP_EXCEEDS_BOUND).message
    for part in (
        "row 0, column 0",
        "4200",
        "3802",
        "0x1.0080000000000p-1",
        "0x1.0000000000000p-1",
        "2 ULP",
        "bound 0.5",
    ):
        assert part in message


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("columns", [1024, 4096])
def test_all_zero_output_is_wrong(fmt: Format, columns: int) -> None:
    bits = matrix(np.random.default_rng(0).standard_normal((2, columns)), fmt)
    found = judge(bits, np.zeros_like(bits), fmt)
    assert kinds(found) == {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION}
    assert found.max_sum_deviation == 1
    assert violation(found, FindingKind.SUM_VIOLATION).count == found.sum_violations == 2


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_the_constant_answer_is_wrong(fmt: Format) -> None:
    bits = matrix(0.1 * np.random.default_rng(1).standard_normal((2, 4096)), fmt)
    output = encode(np.full(bits.shape, 1 / 4096), fmt)
    found = judge(bits, output, fmt)
    assert FindingKind.ULP_EXCEEDS_BOUND in kinds(found)
    # Its sum is exactly 1: a test of the sum alone lets it through.
    assert found.max_sum_deviation == 0


def test_sixteen_times_too_large_bfloat16_is_wrong() -> None:
    bits = matrix(np.random.default_rng(2).standard_normal((2, 4096)), BFLOAT16)
    found = judge(bits, encode(16 * decode(rounded(bits, BFLOAT16), BFLOAT16), BFLOAT16), BFLOAT16)
    assert kinds(found) >= {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION}
    assert violation(found, FindingKind.ULP_EXCEEDS_BOUND).count == bits.size


@pytest.mark.parametrize("change", [-1, 1])
def test_one_float32_ulp_is_within_the_bound(change: int) -> None:
    """triton-lang/triton#11165: floor(sum) of a 32 x 32 ramp is 0 or 1, and both are right."""
    bits = matrix(np.arange(1024.0).reshape(32, 32) / 100, FLOAT32)
    found = judge(bits, rounded(bits, FLOAT32) + np.uint32(change % 2**32), FLOAT32)
    assert found.violations == ()
    assert found.max_ulp is not None
    assert 1 <= found.max_ulp.value <= 1.5


def test_equal_float16_logits_may_miss_one_by_far() -> None:
    """1/130562 is 128.5 least subnormals: every result rounds by half of one, and the sum misses 1 by 0.4 %."""
    bits = np.zeros((1, 130562), dtype=np.uint16)
    found = judge(bits, rounded(bits, FLOAT16), FLOAT16)
    assert found.violations == ()
    assert found.max_sum_deviation == pytest.approx(0.0039, rel=0.01)
    # In 131072 columns the same 0.4 % is just allowed, twice as much is not: there 1/n is exact.
    exact = np.zeros((1, 131072), dtype=np.uint16)
    output = rounded(exact, FLOAT16)
    output[0, : 131072 // 2] += 1
    assert judge(exact, output, FLOAT16).sum_violations == 0
    output[0, :] = output[0, 0]
    assert judge(exact, output, FLOAT16).sum_violations == 1


def test_a_sum_of_zero_is_right_where_every_result_rounds_to_zero() -> None:
    """Like 2^25 equal float16 logits, with a spread instead: one huge row is not needed to see the rule."""
    row = np.concatenate([[0.0], np.full(4095, -18.0)])
    found = judge(matrix([row], FLOAT16), encode(np.eye(1, 4096), FLOAT16), FLOAT16)
    assert found.violations == ()
    assert found.flushed == 0


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("special", [NAN, INF])
def test_rows_with_nan_or_infinity_must_be_nan(fmt: Format, special: float) -> None:
    rows = [[special, 0.0, -INF], [1.0, 2.0, 3.0]]
    bits = matrix(rows, fmt)
    right = rounded(bits, fmt)
    clean = judge(bits, right, fmt)
    assert (clean.violations, clean.special_rows, clean.special_mismatches, clean.elements) == ((), 1, 0, 3)
    for wrong in (0.0, 1.0, INF):
        output = right.copy()
        output[0, 1] = encode(np.array([wrong]), fmt)[0]
        found = judge(bits, output, fmt)
        assert kinds(found) == {FindingKind.NAN_MISMATCH}
        assert found.special_mismatches == 1
        assert found.elements == 3


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_fully_masked_rows_follow_the_declaration(fmt: Format) -> None:
    bits = matrix([[-INF, -INF]], fmt)
    nan, zero, half = (matrix([[v, v]], fmt) for v in (NAN, 0.0, 0.5))
    assert judge(bits, nan, fmt, fully_masked="nan").violations == ()
    assert judge(bits, zero, fmt, fully_masked="zero").violations == ()
    assert kinds(judge(bits, zero, fmt, fully_masked="nan")) == {FindingKind.NAN_MISMATCH}
    assert kinds(judge(bits, nan, fmt, fully_masked="zero")) == {FindingKind.NAN_MISMATCH}
    uniform = judge(bits, half, fmt, fully_masked="zero")
    assert kinds(uniform) == {FindingKind.MASKED_NOT_ZERO}
    assert (uniform.special_rows, uniform.special_mismatches, uniform.max_sum_deviation) == (1, 1, None)


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_masked_lanes_are_exactly_zero(fmt: Format) -> None:
    bits = matrix([[0.0, -INF, 0.0]], fmt)
    output = matrix([[0.5, fmt.least_subnormal, 0.5]], fmt)
    found = judge(bits, output, fmt)
    assert kinds(found) == {FindingKind.MASKED_NOT_ZERO}
    assert violation(found, FindingKind.MASKED_NOT_ZERO).column == 1
    assert judge(bits, matrix([[0.5, -0.0, 0.5]], fmt), fmt).violations == ()


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_non_finite_outputs_of_ordinary_rows(fmt: Format) -> None:
    bits = matrix([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], fmt)
    found = judge(bits, matrix([[NAN, 0.5], [INF, 0.5], [0.5, -INF]], fmt), fmt)
    assert kinds(found) == {FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH}
    assert violation(found, FindingKind.NAN_MISMATCH).count == 1
    assert violation(found, FindingKind.INF_MISMATCH).count == 2
    assert found.elements == 3
    # The finite half of each row is right, and no row has a sum.
    assert found.max_ulp is not None
    assert found.max_ulp.value == 0
    assert found.max_sum_deviation is None
    assert found.special_rows == 0


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_probabilities_lie_between_zero_and_one(fmt: Format) -> None:
    bits = matrix([[0.0, -700.0]], fmt)
    assert FindingKind.OUT_OF_RANGE in kinds(judge(bits, matrix([[1.0, -fmt.least_subnormal]], fmt), fmt))
    assert FindingKind.OUT_OF_RANGE in kinds(judge(bits, matrix([[2.0, 0.0]], fmt), fmt))


def test_an_approximate_division_may_pass_one_by_its_own_error() -> None:
    assert judged([[0.0]], [[1 + 2**-22]], FLOAT32).violations == ()
    assert kinds(judged([[0.0]], [[1 + 2**-20]], FLOAT32)) >= {FindingKind.OUT_OF_RANGE, FindingKind.ULP_EXCEEDS_BOUND}


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_order_is_kept_up_to_the_bounds(fmt: Format) -> None:
    rows = [[1.0, 2.0, 3.0, 2.0]]
    right = rounded(matrix(rows, fmt), fmt)
    swapped = right[:, [0, 2, 1, 3]]
    found = judge(matrix(rows, fmt), swapped, fmt)
    assert kinds(found) == {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.ORDER_VIOLATION}
    worst = violation(found, FindingKind.ORDER_VIOLATION)
    assert (worst.column, worst.count) == (2, 1)
    assert "column 1" in worst.message
    # All wrong, but in order.
    doubled = encode(2 * decode(right, fmt), fmt)
    assert FindingKind.ORDER_VIOLATION not in kinds(judge(matrix(rows, fmt), doubled, fmt))


def test_figures_that_were_not_measured_are_none() -> None:
    for shape in ((0, 5), (5, 0), (0, 0)):
        empty = np.zeros(shape, dtype=np.uint16)
        found = judge(empty, empty, FLOAT16)
        assert (found.max_ulp, found.max_ulp_ftz, found.max_bound_share, found.max_sum_deviation) == (None,) * 4
        assert (found.rows, found.columns, found.elements, found.violations) == (*shape, 0, ())
    nan = judged([[NAN]], [[NAN]], FLOAT32)
    assert (nan.max_ulp, nan.max_sum_deviation, nan.special_rows) == (None, None, 1)


def test_flushed_results_are_counted_and_compared_on_their_own() -> None:
    bits = matrix([[0.0, -12.0, -30.0]], FLOAT16)
    output = rounded(bits, FLOAT16)
    output[0, 1] = 0
    found = judge(bits, output, FLOAT16)
    # e^-30 rounds to zero whether or not a kernel flushes.
    assert found.flushed == 1
    assert found.max_ulp is not None
    assert found.max_ulp.value == pytest.approx(math.exp(-12) * 2**24, rel=1e-3)
    assert found.max_ulp_ftz == pytest.approx(max(math.exp(-12) * 2**14, 0.2), rel=1)
    assert found.max_ulp_ftz <= 1


@pytest.mark.parametrize(
    ("input_bits", "output_bits", "part"),
    [
        (np.zeros((2, 3), np.uint16), np.zeros((3, 2), np.uint16), "shape (3, 2)"),
        (np.zeros((2, 3), np.uint32), np.zeros((2, 3), np.uint16), "uint32"),
        (np.zeros((2, 3), np.uint16), np.zeros((2, 3), np.float16), "float16"),
        (np.zeros(3, np.uint16), np.zeros(3, np.uint16), "(3,)"),
    ],
)
def test_mismatched_arguments_are_refused(input_bits: np.ndarray, output_bits: np.ndarray, part: str) -> None:
    with pytest.raises(UsageError, match="expected") as error:
        judge(input_bits, output_bits, FLOAT16)
    assert part in str(error.value)


def test_another_cases_reference_is_refused() -> None:
    bits = np.zeros((2, 3), np.uint16)
    with pytest.raises(UsageError, match="compute it from this input"):
        judge(bits, bits, FLOAT16, reference=reference(np.zeros((3, 3)), FLOAT16))


def vaguer(exact: Reference, relative: float) -> Reference:
    return Reference(exact.high, exact.low, exact.exponent, np.full(exact.high.shape, relative), exact.absolute_error)


def test_rows_in_doubt_are_judged_by_the_ball_oracle() -> None:
    bits = matrix(np.random.default_rng(3).standard_normal((5, 64)), FLOAT16)
    output = rounded(bits, FLOAT16)
    exact = reference(decode(bits, FLOAT16), FLOAT16)
    sure = judge(bits, output, FLOAT16, reference=exact)
    assert sure.rejudged_rows == 0
    # Doubt of a tenth of a ULP leaves results near a tie undecided; what is reported stays the same.
    doubtful = judge(bits, output, FLOAT16, reference=vaguer(exact, 1e-4))
    assert doubtful.rejudged_rows > 0
    assert doubtful.violations == ()
    assert doubtful.max_ulp is not None
    assert sure.max_ulp is not None
    assert doubtful.max_ulp.value == pytest.approx(sure.max_ulp.value, abs=2**-9)


def test_a_wrong_reference_within_its_stated_error_convicts_nobody() -> None:
    bits = matrix(np.random.default_rng(4).standard_normal((5, 64)), FLOAT16)
    exact = reference(decode(bits, FLOAT16), FLOAT16)
    off = Reference(exact.high * (1 + 1e-4), exact.low, exact.exponent, np.full(exact.high.shape, 2e-4), 0.0)
    assert judge(bits, rounded(bits, FLOAT16), FLOAT16, reference=off).violations == ()


def test_what_hangs_on_a_power_of_two_is_decided() -> None:
    # r is 1/2 but for 2^-101, on either side: one ULP above 1/2 is one ULP of the larger, and two of the smaller.
    bits = matrix([[2.0**-100, 0.0]], FLOAT32)
    for column, ulps in ((0, 1.0), (1, 2.0)):
        output = matrix([[0.5, 0.5]], FLOAT32)
        output[0, column] += 1
        found = judge(bits, output, FLOAT32)
        assert found.rejudged_rows == 1
        assert found.max_ulp is not None
        assert found.max_ulp.value == pytest.approx(ulps)
        assert found.ulp_sum == pytest.approx(ulps)


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda f: f.name)
@pytest.mark.parametrize("change", [-1, 1])
def test_rows_whose_powers_of_two_are_known_are_not_judged_again(fmt: Format, change: int) -> None:
    rows = np.full((4, 64), 1.5)
    rows[1, 1:], rows[2, 4:], rows[3, 8:] = -40.0, -60.0, -INF
    bits = matrix(rows, fmt)
    output = rounded(bits, fmt)
    output[output > 0] += np.array(change).astype(fmt.storage)
    found = judge(bits, output, fmt)
    assert found.rejudged_rows == 0
    assert found.ulp_sum == pytest.approx(sum(judge(bits[i : i + 1], output[i : i + 1], fmt).ulp_sum for i in range(4)))


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
@pytest.mark.parametrize("far", [-800.0, -1300.0, -INF])
def test_results_below_float64s_range_are_one_ulp_from_the_least_normal_number(fmt: Format, far: float) -> None:
    found = judged([[0.0, far]], [[1.0, fmt.least_normal]], fmt)
    assert found.max_ulp is not None
    assert found.max_ulp.value == 2.0 ** (fmt.precision - 1)
    assert found.max_ulp_ftz == 1.0


def test_results_next_to_the_least_normal_number_are_flushed_or_not_as_they_truly_lie() -> None:
    # Of 2^14 logits, two of which are off by next to nothing, r is 2^-14, float16's least normal number, but for 2^-76: below it
    # where one is as much larger as another is smaller, since the exponential is convex.
    bits = np.zeros((3, 2**14), np.uint16)
    bits[0, :2], bits[1, 0] = (1, 0x8001), 0x8001
    output = rounded(bits, FLOAT16)
    output[:, 5] = 0
    found = judge(bits, output, FLOAT16)
    assert (found.rejudged_rows, found.flushed) == (1, 1)
    by_row = [judge(bits[i : i + 1], output[i : i + 1], FLOAT16) for i in range(3)]
    assert [m.flushed for m in by_row] == [1, 0, 0]
    assert [m.max_ulp_ftz for m in by_row] == [pytest.approx(1.0), pytest.approx(2.0**10), pytest.approx(2.0**10)]


def test_one_hot_results_just_below_one() -> None:
    # 1 - 2 e^-60 is below 1, where float32's ULP is 2^-24, but float64 can't tell it from 1.
    found = judged([[60.0, 0.0, 0.0]], [[1 - 2**-24, 8.75651e-27, 8.75651e-27]], FLOAT32)
    assert found.max_ulp is not None
    assert found.max_ulp.value == pytest.approx(1.0)
    assert found.violations == ()


def test_float64_results_are_measured_to_fractions_of_their_ulp() -> None:
    bits = matrix(np.random.default_rng(5).standard_normal((3, 33)), FLOAT64)
    output = rounded(bits, FLOAT64)
    found = judge(bits, output, FLOAT64)
    assert found.max_ulp is not None
    assert 0.3 < found.max_ulp.value <= 0.5
    shifted = judge(bits, output + np.uint64(1), FLOAT64)
    assert shifted.max_ulp is not None
    assert 1 < shifted.max_ulp.value <= 1.5
    assert shifted.violations == ()


@pytest.mark.parametrize("fmt", ALL, ids=lambda f: f.name)
def test_environment_of_the_calling_thread_decides_nothing(fmt):
    least = 2.0 ** (fmt.min_exponent - fmt.precision + 1)
    logits = np.array([[0.0, fmt.min_exponent * math.log(2) - 1, -INF, -INF]])
    bits = encode(logits, fmt)
    output = rounded(bits, fmt)
    output[0, 3] = encode(np.array([least]), fmt)[0]
    expected = judge(bits, output, fmt)
    assert kinds(expected) >= {FindingKind.MASKED_NOT_ZERO}
    assert torch.set_flush_denormal(True)
    try:
        assert judge(bits, output, fmt) == expected
        assert judge(bits, output, fmt, reference=reference(decode(bits, fmt), fmt)) == expected
        assert float((torch.tensor([1e-40]) * 1).item()) == 0, "the caller's own choice stays"
    finally:
        torch.set_flush_denormal(False)
