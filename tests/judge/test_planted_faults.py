"""A judge that can't fail proves nothing: each fault planted in it must be seen by the check meant for it.

Every check passes on the judge as it is, and fails as soon as its fault is planted.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judge_helpers import judged, kinds, matrix, rounded, violation

from oracles.formats import FLOAT16, FLOAT32, decode, encode
from oracles.reference import Reference
from softcheck.contract import FindingKind
from softcheck.judge import judge, tally
from softcheck.operations import bounds, elements, ulp

Check = Callable[[], None]
Patch = Callable[[pytest.MonkeyPatch], None]


def normal(rows: int, columns: int) -> Any:
    return matrix(np.random.default_rng(columns).standard_normal((rows, columns)), FLOAT16)


def wrong_by_two(column: int) -> set[FindingKind]:
    bits = normal(2, 300)
    output = rounded(bits, FLOAT16)
    output[1, column] += 2
    return kinds(judge.judge(bits, output, FLOAT16))


def every_column_counts() -> None:
    assert all(FindingKind.ULP_EXCEEDS_BOUND in wrong_by_two(column) for column in (0, 150, 298, 299))


def every_row_counts() -> None:
    bits = normal(300, 700)
    output = rounded(bits, FLOAT16)
    output[299, 5] += 2
    assert FindingKind.ULP_EXCEEDS_BOUND in kinds(judge.judge(bits, output, FLOAT16))


def rounding_shows_its_half_ulp() -> None:
    bits = normal(5, 300)
    found = judge.judge(bits, rounded(bits, FLOAT16), FLOAT16).max_ulp
    assert found is not None
    assert 0.48 < found.value <= 0.5


def both_signs_of_an_error_count() -> None:
    for output in ([0.5 + 2**-9, 0.5], [0.5 - 2**-9, 0.5]):
        assert FindingKind.ULP_EXCEEDS_BOUND in kinds(judged([[0.0, 0.0]], [output], FLOAT16))


def the_unit_halves_below_a_power_of_two() -> None:
    exact = Reference(np.array([[1.0]]), np.array([[-(2.0**-60)]]), np.zeros((1, 1), np.int64), np.zeros((1, 1)), 0.0)
    bits = matrix([[0.0]], FLOAT32)
    found = judge.judge(bits, matrix([[1 + 2**-23]], FLOAT32), FLOAT32, reference=exact).max_ulp
    assert found is not None
    assert found.value == pytest.approx(2.0)


def special_rows_must_be_nan() -> None:
    for row in ([math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]):
        assert kinds(judged([row], [[0.5, 0.5]], FLOAT16)) == {FindingKind.NAN_MISMATCH}


def ordinary_rows_must_not_be_nan() -> None:
    assert FindingKind.NAN_MISMATCH in kinds(judged([[0.0, 0.0]], [[math.nan, 0.5]], FLOAT16))


def infinite_results_are_findings() -> None:
    assert FindingKind.INF_MISMATCH in kinds(judged([[0.0, 0.0]], [[math.inf, 0.5]], FLOAT16))


def masked_lanes_must_be_zero() -> None:
    assert FindingKind.MASKED_NOT_ZERO in kinds(judged([[0.0, -math.inf]], [[1.0, 2**-24]], FLOAT16))


def sums_are_exact() -> None:
    bits = np.zeros((1, 3000), dtype=np.uint16)
    output = rounded(bits, FLOAT16)
    found = judge.judge(bits, output, FLOAT16).max_sum_deviation
    assert found == abs(float(decode(output, FLOAT16)[0, 0]) * 3000 - 1)


def a_bad_sum_is_found() -> None:
    # Every result is 1e-4 too small: in range, in order, and within the usual tolerance.
    bits = matrix(np.random.default_rng(0).standard_normal((1, 500)), FLOAT32)
    output = encode(decode(rounded(bits, FLOAT32), FLOAT32) * (1 - 1e-4), FLOAT32)
    assert FindingKind.SUM_VIOLATION in kinds(judge.judge(bits, output, FLOAT32))


def a_legitimate_sum_is_not_reported() -> None:
    bits = np.zeros((1, 130562), dtype=np.uint16)
    assert not kinds(judge.judge(bits, rounded(bits, FLOAT16), FLOAT16))


def wrong_order_is_found() -> None:
    bits = matrix([[1.0, 2.0]], FLOAT32)
    assert FindingKind.ORDER_VIOLATION in kinds(judge.judge(bits, rounded(bits, FLOAT32)[:, ::-1], FLOAT32))


def small_results_are_judged_in_their_own_units() -> None:
    # 1/4096 for everything: an absolute error of 1e-3 at most, and hundreds of ULPs.
    bits = matrix(0.1 * np.random.default_rng(1).standard_normal((1, 4096)), FLOAT16)
    output = encode(np.full(bits.shape, 1 / 4096), FLOAT16)
    assert FindingKind.ULP_EXCEEDS_BOUND in kinds(judge.judge(bits, output, FLOAT16))


def right_results_in_doubt_are_acquitted() -> None:
    bits = normal(5, 64)
    exact = judge.reference(decode(bits, FLOAT16), FLOAT16)
    off = Reference(exact.high * (1 + 1e-4), exact.low, exact.exponent, np.full(exact.high.shape, 2e-4), 0.0)
    output = rounded(bits, FLOAT16)
    output[0, 0] += 50
    assert violation(judge.judge(bits, output, FLOAT16, reference=off), FindingKind.ULP_EXCEEDS_BOUND).count == 1


def the_sides_of_one_half_are_told_apart() -> None:
    # r is 1/2 but for 2^-145 or so; errors of 1 + 1 - 1/2 and 6 + 1/2 ULPs, as each row shows by itself.
    bits = np.array([[0x80000013, 0x80000030], [0x8000008A, 0x8000006B]], np.uint32)
    output = np.array([[0x3F000000, 0x3F000001], [0x3F000003, 0x3EFFFFFF]], np.uint32)
    assert abs(judge.judge(bits, output, FLOAT32).ulp_sum - 8.5) < 1e-6


def results_below_float64s_range_count_as_flushed() -> None:
    assert judged([[0.0, -800.0]], [[1.0, FLOAT32.least_normal]], FLOAT32).max_ulp_ftz == 1


def negative_probabilities_are_found() -> None:
    assert FindingKind.OUT_OF_RANGE in kinds(judged([[0.0, -90.0]], [[1.0, -(2**-24)]], FLOAT16))


_error, _scaled, _specials, _bounds = ulp.scaled_error, ulp.scaled, elements.specials, bounds.bounds
_as_if_flushing = ulp.error_as_if_flushing
_tally_add = tally.Tally.add
_tally_init = tally.Tally.__init__


def on(target: Any, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(target, name, value)


def ignores_the_last_column(output: Any, exact: Any) -> Any:
    errors = _error(output, exact)
    errors[:, -1] = 0
    return errors


def takes_no_absolute_value(output: Any, exact: Any) -> Any:
    return np.maximum(ulp.scale(output, -exact.quantum, exact.fmt) - exact.high - exact.low, 0)


def rounds_the_reference_first(reference: Any, fmt: Any, least_scale: float) -> Any:
    nearest = decode(encode(reference.values, fmt), fmt)
    return _scaled(replace(reference, high=nearest, low=np.zeros_like(nearest)), fmt, least_scale)


def forgets(**nothing: str) -> Callable[[Any, Any, Any], Any]:
    def blind(*arguments: Any, **options: Any) -> Any:
        found = _specials(*arguments, **options)
        return replace(found, **{name: np.zeros_like(getattr(found, name)) for name in nothing})

    return blind


def skips_nan_references(logits: Any, output: Any, reference: Any, fmt: Any, **options: Any) -> Any:
    found = _specials(logits, output, reference, fmt, **options)
    return replace(found, nan_mismatch=found.nan_mismatch & ~np.isnan(reference))


def loosens_along_the_row(*arguments: Any) -> Any:
    found = _bounds(*arguments)
    return replace(found, elements=found.elements * (1 + np.arange(found.elements.shape[1])))


def bounds_in_absolute_units(values: Any, exact: Any, *arguments: Any) -> Any:
    found = _bounds(values, exact, *arguments)
    return replace(found, elements=exact.in_ulps(1e-3))


def fixed_sum_tolerance(tolerance: float) -> Callable[..., Any]:
    def tolerant(*arguments: Any) -> Any:
        found = _bounds(*arguments)
        return replace(found, sums=np.full_like(found.sums, tolerance))

    return tolerant


def sums_in_float16(output: Any) -> Any:
    return output.astype(np.float16).cumsum(axis=1, dtype=np.float16)[:, -1].astype(np.float64) - 1


def first_block_only(counted: Any, judged_block: Any) -> None:
    if judged_block.first_row == 0:
        _tally_add(counted, judged_block)


def no_disorder(logits: Any, *_: Any) -> Any:
    return elements.Disorder(np.full(logits.shape, -np.inf), np.zeros(logits.shape, np.int64))


def without_range(counted: Any, rules: Any) -> None:
    _tally_init(counted, [rule for rule in rules if rule.kind is not FindingKind.OUT_OF_RANGE])


def never(*arguments: Any) -> Any:
    return np.zeros(arguments[0].shape, dtype=np.bool_)


def blindly(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elements, "doubtful_verdicts", never)
    patch.setattr(elements, "doubtful_figures", never)


def zero_is_no_small_result(error: Any, output: Any, exact: Any) -> Any:
    return np.where(exact.high > 0, _as_if_flushing(error, output, exact), error)


def exponent_of_the_rounded_value(reference: Any) -> Any:
    return np.frexp(reference.values)[1].astype(np.int64) - 1


FAULTS: dict[str, tuple[Patch, Check]] = {
    "ignores the last column": (on(ulp, "scaled_error", ignores_the_last_column), every_column_counts),
    "judges the first block only": (on(tally.Tally, "add", first_block_only), every_row_counts),
    "rounds the reference first": (on(ulp, "scaled", rounds_the_reference_first), rounding_shows_its_half_ulp),
    "sees errors upwards only": (on(ulp, "scaled_error", takes_no_absolute_value), both_signs_of_an_error_count),
    "takes the unit of the rounded value": (
        on(ulp, "floor_log2", exponent_of_the_rounded_value),
        the_unit_halves_below_a_power_of_two,
    ),
    "tolerance grows along the row": (on(bounds, "bounds", loosens_along_the_row), every_column_counts),
    "fixed absolute tolerance": (
        on(bounds, "bounds", bounds_in_absolute_units),
        small_results_are_judged_in_their_own_units,
    ),
    "skips rows whose answer is NaN": (on(elements, "specials", skips_nan_references), special_rows_must_be_nan),
    "overlooks NaN": (on(elements, "specials", forgets(nan_mismatch="")), ordinary_rows_must_not_be_nan),
    "overlooks infinities": (on(elements, "specials", forgets(inf_mismatch="")), infinite_results_are_findings),
    "forgets masked lanes": (on(elements, "specials", forgets(masked_wrong="")), masked_lanes_must_be_zero),
    "sums in float16": (on(elements, "sum_deviation", sums_in_float16), sums_are_exact),
    "loose fixed sum tolerance": (on(bounds, "bounds", fixed_sum_tolerance(1e-3)), a_bad_sum_is_found),
    "tight fixed sum tolerance": (on(bounds, "bounds", fixed_sum_tolerance(1e-3)), a_legitimate_sum_is_not_reported),
    "never looks at order": (on(elements, "disorder", no_disorder), wrong_order_is_found),
    "trusts its reference blindly": (blindly, right_results_in_doubt_are_acquitted),
    "takes the ULP of its reference's side": (
        on(elements, "doubtful_figures", never),
        the_sides_of_one_half_are_told_apart,
    ),
    "takes what vanishes for no small result": (
        on(ulp, "error_as_if_flushing", zero_is_no_small_result),
        results_below_float64s_range_count_as_flushed,
    ),
    "knows no range": (
        on(tally.Tally, "__init__", without_range),
        negative_probabilities_are_found,
    ),
}


@pytest.mark.parametrize("check", list(dict.fromkeys(check for _, check in FAULTS.values())), ids=lambda c: c.__name__)
def test_checks_pass_on_the_judge_as_it_is(check: Check) -> None:
    check()


@pytest.mark.parametrize("fault", list(FAULTS))
def test_planted_faults_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = FAULTS[fault]
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()
