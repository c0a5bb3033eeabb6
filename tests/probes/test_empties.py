"""Empty matrices: kernels that raise on them, answer in another shape or write beside them are found."""

import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck.variants.declaration import variant


def right(x):
    return torch.softmax(x, dim=-1)


def takes_the_maximum_of_nothing(x):
    # torch.max over an empty dimension raises.
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / e.sum(dim=-1, keepdim=True)


def has_at_least_one_column(x):
    padded = torch.softmax(torch.nn.functional.pad(x, (0, int(x.shape[1] == 0)), value=0.0), dim=-1)
    return padded if x.shape[0] else x.clone()


def answers_in_float32_when_empty(x):
    return torch.softmax(x, dim=-1) if x.numel() else torch.empty(x.shape)


def stores_its_first_tile_unmasked(x):
    if x.shape[0] == 0 and x.storage_offset() + 4 <= x.untyped_storage().nbytes() // x.element_size():
        x.as_strided((4,), (1,)).fill_(1.0)
    return torch.softmax(x, dim=-1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_right_function_is_left_alone_and_every_trial_made(dtype):
    function = variant(dtypes=(dtype,))(right)
    found = conclusion("empties", function, dtype)
    assert (found.findings, found.trials, found.skipped) == ((), 10, ())


@pytest.mark.parametrize(
    ("function", "kind", "label"),
    [
        (takes_the_maximum_of_nothing, "empty_refused", "5x0"),
        (has_at_least_one_column, "wrong_shape", "5x0"),
        (answers_in_float32_when_empty, "wrong_dtype", "0x5"),
        (stores_its_first_tile_unmasked, "out_of_bounds_write", "no-rows-inside"),
    ],
)
def test_fault_is_found_once_where_it_shows_first(function, kind, label):
    found = conclusion("empties", function, "float16")
    assert kinds(found) == {kind}
    assert [shown.label for shown in found.findings] == [label]


def test_message_names_the_other_matrices_that_fail():
    (shown,) = conclusion("empties", takes_the_maximum_of_nothing, "float32").findings
    assert "5x0: " in shown.violation.message
    assert "the same on 0x0, no-columns-inside" in shown.violation.message
    assert "no-rows" not in shown.violation.message
