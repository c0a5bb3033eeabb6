"""Batches, shifts, orders and appended masks: what must not matter, and planted kernels for which it does."""

import numpy as np
import pytest
import torch
from probe_helpers import conclusion, kinds

from oracles.formats import FORMATS, decode
from softcheck.probes.base import Setting
from softcheck.probes.relations import SHIFTS, _shifted
from softcheck.variants.declaration import Declaration, variant

RELATIONS = ("batch_invariance", "shifts", "permutations", "appended_masks")
DTYPES = ("float16", "bfloat16", "float32", "float64")


def right(x):
    return torch.softmax(x, dim=-1)


@pytest.mark.parametrize("probe", RELATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_right_kernels_are_left_alone(probe, dtype):
    found = conclusion(probe, right, dtype)
    assert found.findings == ()
    assert found.trials > 0
    assert len(found.properties) == 1


def promising(function):
    """The function with a declaration, which the original doesn't get."""

    @variant(batch_invariant=True)
    def declared(x):
        return function(x)

    return declared


def first_row_otherwise(x):
    """The first row of a batch is summed in another order, as where a tile of several rows gives it more threads."""
    result = torch.softmax(x, dim=-1)
    if len(x) > 1:
        exponentials = torch.exp(x[:1] - x[:1].amax(dim=1, keepdim=True))
        result[0] = (exponentials / (exponentials.flip(1).cumsum(dim=1)[:, -1:] * (1 + 2e-7)))[0]
    return result


def test_a_row_that_depends_on_its_batch_is_a_property():
    found = conclusion("batch_invariance", first_row_otherwise)
    assert found.findings == ()
    assert found.properties == {"batch_invariant": False}


def test_and_a_finding_where_the_declaration_promises_it():
    found = conclusion("batch_invariance", promising(first_row_otherwise))
    assert kinds(found) == {"row_dependence"}
    assert found.properties == {"batch_invariant": False}
    assert conclusion("batch_invariance", promising(right)).findings == ()


def maximum_of_the_batch(x):
    """Subtracts the largest logit of all rows."""
    exponentials = torch.exp(x - x.amax()) if x.numel() else x
    return exponentials / exponentials.sum(dim=1, keepdim=True)


def test_rows_that_share_a_maximum():
    assert kinds(conclusion("batch_invariance", promising(maximum_of_the_batch))) == {"row_dependence"}


def maximum_not_subtracted(x):
    exponentials = torch.exp(x)
    return exponentials / exponentials.sum(dim=1, keepdim=True)


def in_log_form(x):
    """exp(x - logsumexp(x)), which cancels where logits are large."""
    return torch.exp(x - torch.logsumexp(x, dim=1, keepdim=True))


def starts_from_the_least_number(x):
    """The running maximum starts at -1e4 instead of -inf."""
    top = x.amax(dim=1, keepdim=True).clamp(min=-1e4)
    exponentials = torch.exp(x - top)
    return exponentials / exponentials.sum(dim=1, keepdim=True)


@pytest.mark.parametrize("function", [maximum_not_subtracted, in_log_form, starts_from_the_least_number])
def test_large_shifts(function):
    found = conclusion("shifts", function)
    assert kinds(found) & {"ulp_exceeds_bound", "nan_mismatch", "sum_violation"}
    assert found.properties == {"shift_invariant": False}
    assert " added to every logit: row " in found.findings[0].violation.message
    assert len(found.findings) == len(kinds(found))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["interpreter", "cuda"])
def test_shifts_are_exact(dtype, backend):
    setting = Setting(declaration=Declaration(), dtype=dtype, backend=backend)
    for trial in SHIFTS.trials(setting):
        change, fmt = _shifted(setting, trial.parameters), FORMATS[dtype]
        plain, shifted, constant = change.plain, change.changed, float(change.words.split()[1])
        assert np.array_equal(np.diff(decode(shifted, fmt)), np.diff(decode(plain, fmt)))
        assert abs(constant) > 0.2 * abs(trial.parameters)
        assert len(np.unique(plain)) > 10
        assert np.isfinite(decode(shifted, fmt)).all()


def peak_expected_early(x):
    """The maximum is looked for in the first 512 columns alone, which only matters where a far larger one follows."""
    top = x[:, :512].amax(dim=1, keepdim=True)
    exponentials = torch.exp((x - top).clamp(max=0.0))
    return exponentials / exponentials.sum(dim=1, keepdim=True)


def last_column_lost(x):
    exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
    return exponentials / exponentials[:, :-1].sum(dim=1, keepdim=True)


@pytest.mark.parametrize("function", [peak_expected_early, last_column_lost])
def test_columns_in_other_orders(function):
    found = conclusion("permutations", function)
    assert "ulp_exceeds_bound" in kinds(found)
    assert found.findings[0].violation.message.startswith("columns ")
    assert len(found.findings) == len(kinds(found))


def finite_sentinel(x):
    """Masked logits become -20 before the exponential."""
    return torch.softmax(x.clamp(min=-20.0), dim=-1)


def tile_of_masks(x):
    """An online softmax in tiles of 512 whose first tile of -inf makes -inf - -inf."""
    maximum = torch.full((len(x), 1), -float("inf"))
    total = torch.zeros(len(x), 1)
    for tile in x.split(512, dim=1):
        larger = torch.maximum(maximum, tile.amax(dim=1, keepdim=True))
        total = total * torch.exp(maximum - larger) + torch.exp(tile - larger).sum(dim=1, keepdim=True)
        maximum = larger
    return torch.exp(x - maximum) / total


def test_masked_columns_that_weigh():
    assert "masked_not_zero" in kinds(conclusion("appended_masks", finite_sentinel))


def test_leading_tiles_of_masks():
    found = conclusion("appended_masks", tile_of_masks)
    assert kinds(found) == {"nan_mismatch"}
    [shown] = found.findings
    assert shown.label == "leading-1025"
    assert "500 columns with 525 leading columns of -inf: row 0" in shown.violation.message
    assert shown.violation.message.endswith("; also in leading-4200")
