"""Soft caps, logarithms of base 2 and causal masks: oracles, bounds, and functions that are right and wrong."""

import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from checking import kinds_found
from click.testing import CliRunner

from oracles.formats import FLOAT32, FLOAT64, encode
from softcheck.cli.main import cli
from softcheck.errors import NothingRunError, UsageError
from softcheck.judge.judge import judge
from softcheck.operations.causal import queries_and_keys, visible
from softcheck.operations.registry import operation
from softcheck.variants.registry import load

KERNELS = Path(__file__).parents[1] / "kernels" / "transformed.py"
INF = np.inf
COLUMNS = 12
"""A row of 12 is a matrix of 3 queries and 4 keys, or of 4 and 3."""


def telling_rows(columns=COLUMNS):
    """Rows of several sizes, equal logits, one far above the others, masked ones, and one huge logit."""
    random = np.random.default_rng(7)
    values = random.normal(0, 1, (28, columns)) * np.repeat([1e-3, 1.0, 12.0, 300.0], 7)[:, None]
    values[3], values[4, 5], values[5] = -0.7, 60.0, np.linspace(-20, 0, columns)
    values[6, 1], values[7, 2:6], values[8, 0] = -INF, -INF, 3e4
    return values.astype(np.float32).astype(np.float64)


def exact_logarithms(row, given):
    """The log-softmax of a row in 400 digits, of base 2 if so."""
    scale, cap = mpmath.mpf(given.get("scale", 1.0)), mpmath.mpf(given.get("softcap", 0.0))
    x = [mpmath.mpf(float(v)) * scale for v in row]
    x = [v if mpmath.isinf(v) or not cap else cap * mpmath.tanh(v / cap) for v in x]
    lse = max(x) + mpmath.log(mpmath.fsum(mpmath.exp(v - max(x)) for v in x))
    return [(v - lse) / (mpmath.log(2) if "base" in given else 1) for v in x], lse


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("softmax", {"softcap": 5.0}),
        ("softmax", {"softcap": 30.0, "scale": 0.3}),
        ("log_softmax", {"softcap": 5.0}),
        ("log_softmax", {"base": 2}),
        ("log_softmax", {"base": 2, "softcap": 30.0, "scale": 1.7}),
        ("logsumexp", {"base": 2}),
    ],
)
def test_oracles_keep_their_stated_error(name, given):
    values, computed = telling_rows(), operation(name, given)
    for answer in (computed.answer(values, FLOAT32, "nan"), computed.prove(values, FLOAT32, "nan")):
        for row in range(len(values)):
            with mpmath.workdps(400):
                logarithms, lse = exact_logarithms(values[row], given)
                due = [lse / mpmath.log(2)] if name == "logsumexp" else logarithms
                due = [mpmath.exp(one) for one in due] if name == "softmax" else due
                for column, expected in enumerate(due):
                    if mpmath.isinf(expected):
                        assert answer.high[row, column] == expected
                        continue
                    high, low = mpmath.mpf(answer.high[row, column]), mpmath.mpf(answer.low[row, column])
                    found = mpmath.ldexp(high + low, int(answer.exponent[row, column]))
                    allowed = answer.relative_error[row, column] * abs(expected) + answer.absolute_error
                    assert abs(found - expected) <= allowed, (row, column)


def test_float64_of_base_two_has_its_digits():
    values, computed = telling_rows(), operation("log_softmax", {"base": 2})
    assert computed.answer(values, FLOAT64, "nan").relative_error.max() < 1e-27


@pytest.mark.parametrize("given", [{"base": 2}, {}])
def test_exact_answers_in_decimal(given):
    row = telling_rows()[2]
    with mpmath.workdps(30):
        expected = exact_logarithms(row, given)[0][3]
        assert abs(mpmath.mpf(operation("log_softmax", given).decimal(row, 3, FLOAT32, "nan")) - expected) < 1e-18


def test_bounds_are_no_formality():
    values = telling_rows()
    bits = encode(values, FLOAT32)
    for name, given, least in (("log_softmax", {"base": 2}, 0.1), ("softmax", {"softcap": 30.0}, 0.01)):
        computed = operation(name, given)
        output = computed.yardstick(torch.from_numpy(values).float()).double().numpy()
        found = judge(bits, encode(output, FLOAT32), FLOAT32, operation=computed)
        assert found.violations == ()
        assert found.max_bound_share.value > least


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("softmax", {"softcap": -1.0}, "above 0"),
        ("log_softmax", {"base": 10.0}, "expected 2"),
        ("softmax", {"causal": "left"}, "top-left"),
        ("softmax", {"causal": "top-left", "queries": 2.5}, "number of queries"),
    ],
)
def test_other_values_are_refused(name, given, message):
    with pytest.raises(UsageError, match=message):
        operation(name, given)


def test_a_soft_cap_is_not_judged_in_float64():
    with pytest.raises(UsageError, match="leave float64 out"):
        operation("softmax", {"softcap": 5.0}).answer(telling_rows(), FLOAT64, "nan")


def found(name, declared, dtype="float32"):
    matrices = [telling_rows(), telling_rows(7), telling_rows(30)]
    return kinds_found(f"{KERNELS}:{name}@{declared}", matrices, dtype)


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("capped", "softcap=5"),
        ("capped_by_a_sigmoid", "softcap=5,scale=0.5"),
        ("capped_before_the_mask", "softcap=5"),
        ("logarithm_of_capped", "operation=log_softmax,softcap=20"),
        ("binary_logarithm", "operation=log_softmax,base=2"),
        ("binary_logsumexp", "operation=logsumexp,base=2"),
        ("causal", "causal=top-left"),
        ("causal_of_heads", "causal=top-left"),
        ("causal_of_one", "causal=top-left"),
        ("causal_from_the_end", "causal=bottom-right"),
        ("causal_logarithm", "operation=log_softmax,causal=top-left"),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_right_functions_pass(name, declared, dtype):
    assert found(name, declared, dtype) == set()


@pytest.mark.parametrize(
    ("name", "declared", "kind"),
    [
        ("caps_what_is_masked", "softcap=5", "masked_not_zero"),
        ("mask_before_the_cap", "softcap=5", "masked_not_zero"),
        ("clamped", "softcap=5", "ulp_exceeds_bound"),
        ("capped_by_exponentials", "softcap=5", "nan_mismatch"),
        ("scaled_behind_the_cap", "softcap=5,scale=0.5", "ulp_exceeds_bound"),
        ("natural_logarithm", "operation=log_softmax,base=2", "sum_violation"),
        ("binary_logarithm", "operation=log_softmax", "ulp_exceeds_bound"),
        ("softmax_of_base_two", "operation=log_softmax,base=2", "ulp_exceeds_bound"),
        ("logsumexp_of_two_bases", "operation=logsumexp,base=2", "ulp_exceeds_bound"),
        ("causal", "causal=bottom-right", "ulp_exceeds_bound"),
        ("causal_from_the_end", "causal=top-left", "masked_not_zero"),
        ("causal_without_the_diagonal", "causal=top-left", "nan_mismatch"),
        ("causal_after_the_softmax", "causal=top-left", "ulp_exceeds_bound"),
        ("causal_by_a_large_number", "causal=top-left", "nan_mismatch"),
    ],
)
def test_wrong_functions_are_found(name, declared, kind):
    assert kind in found(name, declared)


def test_what_a_causal_mask_hides_shows_nowhere():
    """NaN behind a mask that selects changes nothing; one that is added lets it through."""
    for name, is_right in (("causal", True), ("causal_by_addition", False)):
        spec = f"{KERNELS}:{name}@causal=top-left,queries=4"
        values = np.random.default_rng(0).normal(0, 1, (3, 16))
        values[1, 3] = np.nan
        assert (kinds_found(spec, [values], "float32") == set()) == is_right


def test_a_query_that_sees_a_nan_may_have_zeros_where_it_sees_nothing():
    values = np.array([[np.nan, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]])
    computed, nan = operation("softmax", {"causal": "top-left", "queries": 2}), np.nan
    more = float(torch.softmax(torch.tensor([3.0, 4.0]), 0)[1])
    for first, is_right in (([nan, 0.0], True), ([nan, nan], True), ([nan, 1.0], False), ([0.0, 0.0], False)):
        output = np.array([[*first, 1 - more, more], [1.0, 0.0, 1 - more, more]])
        violations = judge(encode(values, FLOAT32), encode(output, FLOAT32), FLOAT32, operation=computed).violations
        assert (violations == ()) == is_right, first


def test_queries_that_see_no_key_follow_the_declared_convention():
    spec = f"{KERNELS}:causal_from_the_end@causal=bottom-right,queries=8"
    values = np.random.default_rng(0).normal(0, 1, (3, 16))
    assert kinds_found(spec, [values], "float32") == set()
    assert "nan_mismatch" in kinds_found(f"{spec},fully_masked=zero", [values], "float32")


def test_matrices_of_every_form():
    shapes = [queries_and_keys(columns) for columns in range(1, 400)]
    assert all(queries * keys == columns for columns, (queries, keys) in enumerate(shapes, 1))
    assert {(a > b) - (a < b) for a, b in shapes} == {-1, 0, 1}
    assert queries_and_keys(0) == (1, 0)


def test_masks_by_hand():
    assert visible(2, 3, "top-left").tolist() == [[True, False, False], [True, True, False]]
    assert visible(2, 3, "bottom-right").tolist() == [[True, True, False], [True, True, True]]
    assert visible(3, 2, "bottom-right").tolist() == [[False, False], [True, False], [True, True]]


def test_calls_are_shown():
    for name, call in (("causal_of_heads", "f(x4, is_causal=True)"), ("causal_of_one", "f(x1)"), ("causal", "")):
        variant = load(f"{KERNELS}:{name}@causal=top-left")
        variant.function(torch.zeros(2, 12))
        assert variant.call == call


@pytest.mark.parametrize(
    ("name", "declared", "code"),
    [
        ("capped", "softcap=5", 0),
        ("binary_logsumexp", "operation=logsumexp,base=2", 0),
        ("causal", "causal=top-left", 0),
        ("causal_without_the_diagonal", "causal=top-left", 1),
    ],
)
def test_reports(name, declared, code):
    spec = f"{KERNELS}:{name}@{declared}"
    chosen = ["--dtype", "float32", "--device", "interpreter", "--family", "ties", "--probe", "empties"]
    done = CliRunner().invoke(cli, ["report", "--variant", spec, *chosen])
    assert done.exit_code == code, done.output


def test_each_variant_of_a_report_is_judged_by_its_own_parameters():
    names = (
        "causal@causal=top-left",
        "causal_from_the_end@causal=bottom-right",
        "capped@softcap=5",
        "capped@softcap=8",
    )
    variants = [word for name in names for word in ("--variant", f"{KERNELS}:{name}")]
    chosen = ["--dtype", "float32", "--device", "interpreter", "--family", "ties", "--probe", "empties"]
    done = CliRunner().invoke(cli, ["report", *variants, *chosen])
    assert done.exit_code == 0, done.output


def test_a_matrix_for_each_row_is_not_traced():
    done = CliRunner().invoke(cli, ["trace", "causal_online", "--values", "1, 2, 3, 4", "--dtype", "float32"])
    assert isinstance(done.exception, NothingRunError)
    assert "several queries or rows" in str(done.exception)


def test_base_e_is_the_usual_one():
    assert operation("log_softmax", {"base": math.e}) is operation("log_softmax")
