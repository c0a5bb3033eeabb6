"""Empty matrices: kernels that raise on them, answer in another shape or write beside them are found."""

import sys

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from probe_helpers import conclusion, kinds
from triton.runtime.interpreter import InterpretedFunction

from softcheck.variants.declaration import variant


def right(x):
    return torch.softmax(x, dim=-1)


def takes_the_maximum_of_nothing(x):
    # torch.max over an empty dimension raises.
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / e.sum(dim=-1, keepdim=True)


def takes_numpys_maximum_of_nothing(x):
    # Raised by numpy's own Python code.
    e = np.exp(x.numpy() - x.numpy().max(axis=-1, keepdims=True))
    return torch.from_numpy(e / e.sum(axis=-1, keepdims=True))


@InterpretedFunction
def _of_one_block(x, y, columns, block: tl.constexpr):
    column = tl.arange(0, block)
    inside = column < columns
    at = tl.program_id(0) * columns + column
    e = tl.load(x + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(e - tl.max(e, axis=0))
    tl.store(y + at, e / tl.sum(e, axis=0), mask=inside)


def has_a_block_of_no_lanes(x):
    # Triton refuses tl.arange(0, 0) once the kernel is launched.
    packed, y = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    _of_one_block[(x.shape[0],)](packed, y, x.shape[1], triton.next_power_of_2(x.shape[1]) if x.shape[1] else 0)
    return y


def looks_up_the_first_column(x):
    return {column: torch.softmax(x, dim=-1) for column in range(x.shape[1])}[0]


class NoColumnsError(Exception):
    pass


def raises_an_error_of_its_own(x):
    if not x.shape[1]:
        raise NoColumnsError(f"{x.shape[1]} columns")
    return torch.softmax(x, dim=-1)


def exits(x):
    return sys.exit(1) if not x.numel() else torch.softmax(x, dim=-1)


def writes_before_it_raises(x):
    if x.shape[0] == 0 and x.storage_offset() + 4 <= x.untyped_storage().nbytes() // x.element_size():
        x.as_strided((4,), (1,)).fill_(1.0)
        raise ValueError("no rows")
    return torch.softmax(x, dim=-1)


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
        (takes_numpys_maximum_of_nothing, "empty_refused", "5x0"),
        (has_a_block_of_no_lanes, "empty_refused", "5x0"),
        (looks_up_the_first_column, "empty_refused", "5x0"),
        (raises_an_error_of_its_own, "empty_refused", "5x0"),
        (exits, "raised", "0x5"),
        (writes_before_it_raises, "raised", "no-rows-inside"),
        (has_at_least_one_column, "wrong_shape", "5x0"),
        (answers_in_float32_when_empty, "wrong_dtype", "0x5"),
        (stores_its_first_tile_unmasked, "out_of_bounds_write", "no-rows-inside"),
    ],
)
def test_fault_is_found_once_where_it_shows_first(function, kind, label):
    found = conclusion("empties", function, "float16")
    assert kinds(found) == {kind}
    assert [shown.label for shown in found.findings] == [label]
    assert (found.findings[0].violation.refusal is not None) is (kind == "empty_refused")


def test_message_names_the_other_matrices_that_fail():
    (shown,) = conclusion("empties", takes_the_maximum_of_nothing, "float32").findings
    assert "5x0: " in shown.violation.message
    assert "also in 0x0, no-columns-inside" in shown.violation.message
    assert "no-rows" not in shown.violation.message
