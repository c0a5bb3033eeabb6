"""Rows that leak into each other are found, whatever leaks; rows that do not are left alone."""

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck import variant
from softcheck.probes.base import Setting
from softcheck.probes.registry import load
from softcheck.variants.declaration import Declaration


def exponentials(x, shift):
    raised = torch.exp(x - shift)
    return raised / raised.sum(dim=-1, keepdim=True)


def shares_the_maximum(x):
    """One maximum for all rows: right until a row is far below it."""
    return exponentials(x, x.amax())


def shares_the_maximum_with_the_next_row(x):
    following = torch.cat([x[1:], x[-1:]]).amax(dim=-1, keepdim=True)
    return exponentials(x, torch.maximum(x.amax(dim=-1, keepdim=True), following))


def multiplies_by_zero(x):
    """A mask by multiplication lets NaN through."""
    return torch.softmax(x, dim=-1) + 0 * x.roll(1, 0)


def sees_only_nan(x):
    clean = torch.softmax(x, dim=-1)
    return torch.full_like(x, float("nan")) if x.isnan().any() else clean


def sees_only_huge(x):
    return torch.softmax(x, dim=-1) * (1 if x.abs().nan_to_num(0.0, 0.0, 0.0).max() < 1000 else 0.5)


def sees_only_infinity(x):
    return torch.softmax(x, dim=-1) * (0.5 if x.isposinf().any() else 1)


def sees_only_minus_infinity(x):
    return torch.softmax(x, dim=-1) * (0.5 if x.isneginf().any() else 1)


def cuts_behind_the_padding_of_the_first_row(x):
    """Takes the batch for padded to one length."""
    if not x.numel():
        return torch.softmax(x, dim=-1)
    seen = (~x[0].isneginf()).nonzero()
    last = int(seen.max()) + 1 if len(seen) else x.shape[1]
    return torch.softmax(x.index_fill(1, torch.arange(last, x.shape[1]), -torch.inf), dim=-1)


def native(x):
    return torch.softmax(x, dim=-1)


def row_by_row(x):
    return torch.stack([torch.softmax(row, dim=-1) for row in x])


def never_twice_the_same(x):
    return torch.softmax(x * (1 + torch.rand(1, dtype=x.dtype)), dim=-1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        shares_the_maximum,
        shares_the_maximum_with_the_next_row,
        multiplies_by_zero,
        sees_only_nan,
        sees_only_huge,
        sees_only_infinity,
        sees_only_minus_infinity,
        cuts_behind_the_padding_of_the_first_row,
    ],
    ids=lambda f: f.__name__,
)
def test_rows_that_depend_on_others_are_found(function, dtype):
    found = conclusion("neighbours", function, dtype)
    assert kinds(found) == {"row_dependence"}
    assert len(found.findings) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", [native, row_by_row])
def test_rows_by_themselves_are_left_alone(function, dtype):
    found = conclusion("neighbours", function, dtype)
    assert (found.findings, found.trials) == ((), 2)


def test_what_varies_by_itself_is_not_accused():
    assert conclusion("neighbours", never_twice_the_same).findings == ()


def test_the_witness_is_a_row_that_was_not_replaced():
    [shown] = conclusion("neighbours", sees_only_nan).findings
    assert shown.violation.row == 1
    assert "rows of NaN" in shown.violation.message


def right_backward(grad, y):
    return y * (grad - (y * grad).sum(dim=-1, keepdim=True))


def skips_where_y_is_zero(grad, y):
    terms = torch.where(y == 0, 0.0, y * grad)
    return torch.where(y == 0, 0.0, y * (grad - terms.sum(dim=-1, keepdim=True)))


def takes_nan_for_zero(grad, y):
    return right_backward(grad.nan_to_num(), y)


def takes_one_mean_for_all_rows(grad, y):
    total = (y * grad).sum(dim=-1, keepdim=True)
    return right_backward(grad, y) if total.isfinite().all() else y * (grad - total.mean())


def takes_constant_gradients_apart(grad, y):
    return right_backward(grad, y) * (1 + 2**-22 if grad.stride(1) == 0 else 1)


@pytest.mark.parametrize("probe", ["neighbours", "batch_invariance"])
def test_a_way_of_its_own_for_constant_gradients_is_no_dependence(probe):
    backward = variant(operation="softmax_backward", call="f(grad, y)", batch_invariant=True)(
        takes_constant_gradients_apart
    )
    assert not set().union(*(kinds(conclusion(probe, backward, seed=seed)) for seed in range(8)))


@pytest.mark.parametrize("probe", ["neighbours", "batch_invariance"])
def test_a_backward_that_looks_at_all_rows_is_found(probe):
    def of_the_whole_batch(grad, y):
        return right_backward(grad, y) * (1 + 2**-22 * (y.sum() > 2.5))

    backward = variant(operation="softmax_backward", call="f(grad, y)", batch_invariant=True)(of_the_whole_batch)
    assert kinds(conclusion(probe, backward)) == {"row_dependence"}


@pytest.mark.parametrize(
    ("function", "due"),
    [
        (right_backward, set()),
        (skips_where_y_is_zero, {"nan_mismatch"}),
        (takes_nan_for_zero, {"nan_mismatch"}),
        (takes_one_mean_for_all_rows, {"row_dependence"}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_special_output_gradient_shows_in_its_own_row_alone(function, due):
    backward = variant(operation="softmax_backward", call="f(grad, y)")(function)
    assert kinds(conclusion("neighbours", backward, labels={"output-gradients/129", "output-gradients/1100"})) == due


def test_few_rows_are_tried_where_each_is_a_call_of_its_own():
    """A mean of 3000 rows would be 39000 calls of a millisecond each."""

    def most_rows(reduction):
        declared = Declaration(operation="cross_entropy", parameters={"reduction": reduction})
        setting = Setting(declaration=declared, dtype="float16", backend="cuda")
        return max(trial.parameters.keywords["rows"] for trial in load("neighbours").trials(setting)), setting.fewer(
            2048, 77
        )

    assert most_rows("none") == (3000, 2048)
    assert most_rows("mean") == (8, 64)
