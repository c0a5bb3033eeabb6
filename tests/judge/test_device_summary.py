"""A table's figures are reduced to the same by torch and by numpy, with rows broken, in doubt, special, or none of these."""

import math

import numpy as np
import pytest
import torch
from msgspec.structs import asdict

from oracles.formats import FLOAT16
from softcheck.contract import FindingKind
from softcheck.judge.device.fields import FIELDS, PLACES, FigureTable
from softcheck.judge.device.summary import summarise

ROWS = 9


def right_rows():
    """Figures of rows of four columns that keep every promise; row 5 is special, and so has no sum."""
    figures = np.zeros((len(FIELDS), ROWS))
    rng = np.random.default_rng(0)
    chosen = {"row": np.arange(ROWS) * 10.0, "comparable": 4.0, "deviation": 1e-4, "allowed": 1e-3}
    for name in ("error", "share", "error_sum", "error_ftz"):
        chosen[name] = rng.uniform(0.1, 0.5, ROWS)
    for name in ("error_column", "share_column", "error_logit", "error_output", "share_logit", "share_output"):
        chosen[name] = rng.integers(0, 4, ROWS)
    for name, values in chosen.items():
        figures[PLACES[name]] = values
    for name, value in (("special", 1), ("comparable", 0), ("deviation", math.nan), ("error", -1), ("share", -1)):
        figures[PLACES[name], 5] = value
    return figures


def changed(**changes):
    figures = right_rows()
    for name, (row, value) in changes.items():
        figures[PLACES[name], row] = value
    return figures


def summarised(figures, most):
    return summarise(FigureTable(figures), FLOAT16, margin=1e-5, most_broken=most)


TABLES = {
    "right": changed(),
    "in doubt": changed(doubtful=(2, 1)),
    "broken": changed(exceeding=(3, 2), share=(3, 7.0)),
    "broken and in doubt": changed(exceeding=(3, 2), share=(3, 7.0), doubtful=(4, 1)),
    "a sum too large": changed(deviation=(1, 0.5)),
    "a sum at its limit": changed(deviation=(1, 1e-3)),
    "special, and wrong": changed(nan_mismatch=(5, 4)),
}


@pytest.mark.parametrize("most", [0, 5])
@pytest.mark.parametrize("table", TABLES)
def test_torch_and_numpy_reduce_alike(table, most):
    figures = TABLES[table]
    by_numpy = summarised(figures, most)
    by_torch = summarised(torch.from_numpy(figures), most)
    assert (by_numpy.left, by_numpy.broken) == (by_torch.left, by_torch.broken)
    for name, theirs in asdict(by_torch.kept).items():
        ours = getattr(by_numpy.kept, name)
        assert ours == (pytest.approx(theirs) if isinstance(theirs, float) else theirs), name
    assert by_numpy.chosen.tolist() == by_torch.chosen.tolist()


def test_right_rows_are_all_kept():
    found = summarised(right_rows(), 5)
    errors = right_rows()[PLACES["error"]]
    assert (found.left, found.kept.elements, found.kept.special_rows, found.broken) == (0, 4 * (ROWS - 1), 1, {})
    assert (found.kept.max_ulp.value, found.kept.max_ulp.row) == (errors.max(), 10 * errors.argmax())


def test_rows_in_doubt_and_few_broken_rows_are_chosen_and_many_are_counted():
    figures = TABLES["broken and in doubt"]
    few = summarised(figures, 1)
    assert np.flatnonzero(few.chosen).tolist() == [3, 4]
    many = summarised(figures, 0)
    assert np.flatnonzero(many.chosen).tolist() == [4]
    assert many.broken == {FindingKind.ULP_EXCEEDS_BOUND: (2, 30)}
    assert many.kept.max_bound_share.value == 7.0
