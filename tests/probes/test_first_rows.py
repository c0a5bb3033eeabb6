"""Ways that a wrapper takes for all rows because of one are found, and ways that are right for every row are left alone."""

import pytest
import torch
from probe_helpers import conclusion, made_in, subject_of

from softcheck.probes import meetings


def told_by(is_special, other):
    """A softmax that goes another way where the first row is special, and with it supposedly every row."""

    def function(x):
        return other(x) if len(x) and is_special(x[0]) else torch.softmax(x, dim=-1)

    return function


def unshifted(x):
    return torch.exp(x) / torch.exp(x).sum(dim=-1, keepdim=True)


def without_the_last_column(x):
    return torch.cat([unshifted(x[:, :-1]), torch.zeros_like(x[:, :1])], dim=-1)


def found_in(function, dtype="float32"):
    """Returns the special rows beside which, or as which, rows are wrong."""
    always = [str(way) for way in meetings._space_of(subject_of(function, dtype)).always]
    made = made_in(function, dtype, (), *(way for way in always if "rows like" in way))
    return {way.partition("rows like=")[2] for way in made}


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("is_special", "other", "like"),
    [
        (lambda row: (row == 0).all(), torch.zeros_like, "zeros"),
        (lambda row: (row.diff() <= 0).all() and row.std() > 0, unshifted, "descending numbers"),
        (lambda row: (row.float().exp().sum() - 1).abs() < 1e-2, torch.exp, "logarithms of probabilities"),
        (lambda row: row[-1].isneginf(), without_the_last_column, "0 in one column and -inf elsewhere"),
    ],
    ids=["zeros", "descending", "normalised", "padded"],
)
def test_a_way_that_the_first_row_tells_is_found(is_special, other, like, dtype):
    assert f"{like} at both ends" in found_in(told_by(is_special, other), dtype)


def test_the_slice_names_the_first_row():
    found = conclusion("first_rows", told_by(lambda row: (row == 0).all(), torch.zeros_like))
    assert found.findings[0].label.startswith("rows like=zeros ")


def test_ways_that_are_right_for_every_row_are_left_alone():
    def in_double(x):
        return torch.softmax(x.double(), dim=-1).to(x.dtype)

    assert found_in(told_by(lambda row: row.amax() - row.mean() < 1, in_double)) == set()


def test_a_way_that_all_rows_tell_together_is_found():
    def halves_of_doubled_columns(x):
        if len(x) and x.shape[1] % 2 == 0 and torch.equal(x[:, [0, -2]], x[:, [1, -1]]):
            return torch.softmax(x[:, ::2], dim=-1).repeat_interleave(2, dim=1) / 2
        return torch.softmax(x, dim=-1)

    assert "0 in one column and -inf elsewhere throughout" in found_in(halves_of_doubled_columns)
