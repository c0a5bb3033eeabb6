"""Evidence in a call's exception: whether the variant turned the input down before it did anything."""

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling.call import call, place
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind


def called(function, rows=2, columns=8):
    fmt = FORMATS["float32"]
    bits = np.zeros((rows, columns), dtype=fmt.storage)
    (violation,) = call(function, place(bits, fmt, PACKED, torch.device("cpu"))).violations
    return violation


def refuses(x):
    raise RuntimeError(f"{x.shape[1]} columns are too many")


def asserts(x):
    assert x.shape[1] < 4, "too wide"
    return torch.softmax(x, -1)


def divides(x):
    return torch.softmax(x / (1 // (8 // x.shape[1])), -1)


def is_raised_in_torch(x):
    return torch.softmax(x.view(-1, 3), -1)


def numel(x):
    raise ValueError("numel (2097152) exceeds triton maximum tensor numel (1048576)")


@pytest.mark.parametrize(("function", "error"), [(refuses, "RuntimeError: 8 columns"), (asserts, "AssertionError")])
def test_a_statement_of_its_own_that_raises_is_a_refusal(function, error):
    violation = called(function)
    assert violation.kind is FindingKind.RAISED
    assert violation.refusal.error.startswith(error)
    assert violation.refusal.place.startswith("test_refusals.py:")
    assert (violation.refusal.rows, violation.refusal.columns) == (2, 8)


@pytest.mark.parametrize("function", [divides, is_raised_in_torch])
def test_what_an_operation_raises_is_none(function):
    assert called(function, columns=16).refusal is None


def test_who_has_written_before_has_not_refused():
    def writes(x):
        x[0, 0] = 1.0
        raise RuntimeError("too wide")

    fmt = FORMATS["float32"]
    found = call(writes, place(np.zeros((2, 8), dtype=fmt.storage), fmt, PACKED, torch.device("cpu")))
    assert all(violation.refusal is None for violation in found.violations)


def test_without_elements_any_exception_of_its_own_code_has_a_kind_of_its_own():
    violation = called(lambda x: 8 // x.shape[1], columns=0)
    assert violation.kind is FindingKind.EMPTY_REFUSED
    assert violation.refusal.error.startswith("ZeroDivisionError")


def test_the_largest_tensor_of_triton_is_a_refusal():
    violation = called(numel)
    assert violation.refusal.place == "Triton"
    assert "2097152" in violation.refusal.error


def test_triton_says_so_in_these_words():
    """Of the interpreter as of the compiler; the release decides."""
    from triton._utils import validate_block_shape

    with pytest.raises(ValueError, match=r"numel \(\d+\) exceeds triton maximum tensor numel \(\d+\)"):
        validate_block_shape([2**21])
