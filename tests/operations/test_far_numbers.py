"""Answers of float64 where its own logarithms cancel or its products overflow, against mpmath."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest

from oracles.formats import FLOAT32, FLOAT64, encode
from softcheck.judge.judge import judge
from softcheck.operations.gradient import GradientErrors
from softcheck.operations.registry import operation

RNG = np.random.default_rng(7)
FAR = RNG.normal(size=(6, 5)) * np.array([2.0**899, 2.0**901, 2.0**950, 2.0**1000, 1e300, 2e307])[:, None]
NEAR_ZERO = np.log(RNG.dirichlet(np.ones(5), 200))


def log_sum(row):
    with mpmath.workdps(700):
        return mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(x)) for x in row))


def far_log_sum(row):
    """The same for rows whose largest number is far above the others."""
    with mpmath.workdps(700):
        top = max(map(mpmath.mpf, row))
        return top + mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(x) - top) for x in row))


def ulps(output, due):
    """The distance of an output from an exact number, in the ULPs of that."""
    with mpmath.workdps(700):
        unit = mpmath.ldexp(1, int(mpmath.floor(mpmath.log(abs(due), 2))) - 52)
        return float(abs(mpmath.mpf(output) - due) / unit)


@pytest.mark.parametrize("name", ["logsumexp", "log_softmax"])
def test_base_two_is_exact_however_large_the_logits_are(name):
    found = operation(name, {"base": 2.0})
    for row in FAR:
        lse = far_log_sum(row)
        with mpmath.workdps(700):
            due = [(lse if name == "logsumexp" else mpmath.mpf(x) - lse) / mpmath.log(2) for x in row]
        right = np.array([[float(each) for each in (due[:1] if name == "logsumexp" else due)]])
        for output in (right, np.nextafter(right, np.inf), np.nextafter(right, -np.inf)):
            measured = judge(encode(row[None], FLOAT64), encode(output, FLOAT64), FLOAT64, operation=found)
            largest = max(ulps(each, exact) for each, exact in zip(output[0], due, strict=False) if exact != 0)
            if np.isfinite(output).all():
                assert measured.max_ulp.value == pytest.approx(largest, abs=1e-3)


@pytest.mark.parametrize("base", [2.0, None])
def test_an_infinite_answer_of_base_two_is_the_only_one_beyond_float64(base):
    found = operation("logsumexp", {"base": base} if base else {})
    row = encode(np.full((1, 1), 1.5e308), FLOAT64)
    finite = judge(row, encode(np.full((1, 1), 1.5e308), FLOAT64), FLOAT64, operation=found)
    infinite = judge(row, encode(np.full((1, 1), np.inf), FLOAT64), FLOAT64, operation=found)
    assert {str(each.kind) for each in finite.violations} == ({"inf_mismatch"} if base else set())
    assert {str(each.kind) for each in infinite.violations} == (set() if base else {"inf_mismatch"})


def test_a_bound_of_large_logits_is_finite():
    found = operation("logsumexp", {})
    row = np.full((1, 3), 1.7e308)
    for output, is_right in ((1.7e308, True), (5.0, False)):
        measured = judge(encode(row, FLOAT64), encode(np.full((1, 1), output), FLOAT64), FLOAT64, operation=found)
        assert bool(measured.violations) != is_right


@pytest.mark.parametrize(
    "given",
    [{"label_smoothing": 0.1}, {"z_loss": 1e-2}, {"weight": 1.0}, {"reduction": "sum"}, {"reduction": "mean"}],
    ids=str,
)
def test_losses_are_measured_where_the_logarithm_of_the_sum_cancels(given):
    """Rows of log-probabilities, whose log-sum-exp is 0 in float64 and not exactly."""
    found = operation("cross_entropy", given)
    exact = found.prove(NEAR_ZERO, FLOAT64, "nan")
    plain = found.answer(NEAR_ZERO, FLOAT32, "nan")
    assert np.isfinite(plain.relative_error).all()
    with np.errstate(invalid="ignore"):
        distance = np.abs((plain.high - exact.high) - exact.low)
    assert (distance <= plain.relative_error * np.abs(plain.high) + 1e-300).all()
    measured = judge(encode(NEAR_ZERO, FLOAT64), encode(exact.values, FLOAT64), FLOAT64, operation=found)
    assert measured.max_ulp.value <= 0.5 + 1e-3
    assert not measured.violations


def test_the_log_sum_exp_of_log_probabilities_is_within_its_error():
    found = operation("logsumexp", {}).answer(NEAR_ZERO, FLOAT32, "nan")
    assert (found.high != 0).all()
    for row, high, off in zip(NEAR_ZERO, found.high[:, 0], found.relative_error[:, 0], strict=True):
        assert abs(mpmath.mpf(high) - log_sum(row)) <= off * abs(high)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("size", [1e300, 7e307, 1.7e308])
def test_a_reduced_loss_of_zero_is_no_finding(reduction, size):
    """The logit of each target is far above all others, so that each loss is 0."""
    found = operation("cross_entropy", {"reduction": reduction})
    # Targets are drawn from the numbers of their rows: a row is one whose target is its first column.
    targets = operation("cross_entropy", {}).bounds.__self__.targets
    drawn = np.stack([size * (1 - np.arange(64) / 128), np.full(64, -size)], axis=1)
    values = drawn[targets.of_values(drawn) == 0][:2].reshape(1, 4)
    measured = judge(encode(values, FLOAT64), encode(np.zeros((1, 1)), FLOAT64), FLOAT64, operation=found)
    assert not measured.violations


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("softmax", {"scale": 8.0}),
        ("log_softmax", {"scale": 8.0}),
        ("cross_entropy", {"label_smoothing": 0.1}),
        ("cross_entropy", {"weight": 1.0}),
        ("cross_entropy", {"reduction": "sum"}),
    ],
    ids=str,
)
def test_float64_is_judged_beyond_the_largest_number_of_float32(name, given):
    found = operation(name, given)
    values = RNG.normal(size=(4, 6)) * 1e60
    right = found.prove(values, FLOAT64, "nan").values
    bits = encode(values, FLOAT64)
    assert not judge(bits, encode(right, FLOAT64), FLOAT64, operation=found).violations
    wrong = np.where(right == 0, 0.5, right * (1 + 1e-3))
    assert judge(bits, encode(wrong, FLOAT64), FLOAT64, operation=found).violations
    # What float64 does not hold either is nobody's promise.
    far = np.full((1, 6), 1e308)
    far[0, 3] = -1e308
    assert found.undefined is not None
    assert found.undefined(far, FLOAT64).all()
    assert found.undefined(values, FLOAT32).all()


@pytest.mark.parametrize("part", ["elements", "sums"])
def test_a_bound_that_is_nan_is_an_error(part):
    found = operation("softmax", {})

    def bounds(*given):
        right = found.bounds(*given)
        return replace(right, **{part: np.full_like(getattr(right, part), np.nan)})

    row = encode(np.zeros((2, 4)), FLOAT32)
    with pytest.raises(ArithmeticError, match="a bound of softmax is NaN"):
        judge(row, encode(np.full((2, 4), 0.25), FLOAT32), FLOAT32, operation=replace(found, bounds=bounds))
    special = encode(np.full((2, 4), np.nan), FLOAT32)
    assert not judge(special, special, FLOAT32, operation=replace(found, bounds=bounds)).violations


def test_a_limit_of_a_gradient_that_is_nan_is_an_error():
    ones = np.ones((1, 2))
    with pytest.raises(ArithmeticError, match="a gradient's bound is NaN"):
        GradientErrors(ones, ones, np.array([[1.0, np.nan]]), ones)
