"""Far elements: offsets that wrap at 32 bits are found without a fault, in virtual memory that is hardly used."""

import mmap
import resource
import sys

import numpy as np
import pytest
import torch
from probe_helpers import conclusion, kinds

from softcheck import variant
from softcheck.operations.strides import like, untaken

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's MAP_NORESERVE")


def gathered(x, offsets):
    """Elements at these offsets from the first, as a kernel loads them."""
    storage = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    return storage[torch.from_numpy(offsets + x.storage_offset())]


def with_offsets(x, kind):
    rows, columns = x.shape
    row = (np.arange(rows) * x.stride(0)).astype(kind).astype(np.int64)[:, None]
    column = (np.arange(columns) * x.stride(1)).astype(kind).astype(np.int64)[None, :]
    return torch.softmax(gathered(x, row + column), dim=-1)


def offsets_of_32_bits(x):
    return with_offsets(x, np.int32)


def offsets_of_64_bits(x):
    return with_offsets(x, np.int64)


def rounds_offsets(x):
    """Offsets in float32: another way to miss, without wrapping."""
    rows, columns = x.shape
    where = np.add.outer(np.arange(rows) * x.stride(0), np.arange(columns) * x.stride(1)).astype(np.float32)
    return torch.softmax(gathered(x, where.astype(np.int64)), dim=-1)


def maximum_from_offsets_of_32_bits(x):
    """Only the maximum comes from elsewhere, which would do no harm if it lay near by."""
    row = (np.arange(x.shape[0]) * x.stride(0)).astype(np.int32).astype(np.int64)[:, None]
    column = (np.arange(x.shape[1]) * x.stride(1)).astype(np.int32).astype(np.int64)[None, :]
    weights = torch.exp(x - gathered(x, row + column).amax(dim=-1, keepdim=True))
    return weights / weights.sum(dim=-1, keepdim=True)


def reads_rows_as_packed(x):
    rows, columns = x.shape
    return torch.softmax(x.as_strided((rows, columns), (columns, 1)), dim=-1)


def native(x):
    return torch.softmax(x, dim=-1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_offsets_that_wrap_are_found_in_rows_and_columns(dtype):
    found = conclusion("addresses", offsets_of_32_bits, dtype)
    [shown] = found.findings
    assert (shown.label, str(shown.violation.kind)) == ("row-stride-2^30", "out_of_bounds_read")
    assert "32-bit offsets wrap" in shown.violation.message
    assert shown.violation.message.endswith("also in column-stride-2^30")


@pytest.mark.parametrize("function", [rounds_offsets, maximum_from_offsets_of_32_bits])
def test_other_ways_to_miss_are_found(function):
    found = conclusion("addresses", function)
    assert kinds(found) == {"wrong_layout"}


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("function", [offsets_of_64_bits, native, reads_rows_as_packed])
def test_what_has_nothing_to_do_with_the_distance_is_left_alone(function, dtype):
    """Ignored strides are the layouts probe's to find."""
    found = conclusion("addresses", function, dtype)
    assert found.findings == ()
    assert found.trials == 2
    assert any("needs a GPU" in reason for reason in found.skipped)


def test_hardly_any_memory_is_taken():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    conclusion("addresses", native, "float64")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # KiB; the storage is 34 GB


def test_operands_of_far_elements_take_hardly_any_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = untaken(2**31 + 2, torch.float32).as_strided((3, 2), (2**30, 1))
    operand = like(x, torch.arange(6.0).view(3, 2))
    assert operand.stride() == x.stride()
    assert torch.equal(operand, torch.arange(6.0).view(3, 2))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # KiB; the memory is 9 GB


def test_strides_are_not_asked_of_what_declares_none():
    found = conclusion("addresses", variant(layouts=("contiguous",))(lambda x: torch.softmax(x, dim=-1)))
    assert found.trials == 0


@pytest.mark.parametrize(
    "error", [OSError(12, "Cannot allocate memory"), RuntimeError("can't allocate memory: you tried"), MemoryError()]
)
def test_memory_that_cannot_be_had_is_a_reason(monkeypatch, error):
    def refused(*_args, **_options):
        raise error

    monkeypatch.setattr(mmap, "mmap", refused)
    found = conclusion("addresses", native)
    assert found.trials == 0
    assert all("the memory could not be had" in reason or "needs a GPU" in reason for reason in found.skipped)
    assert any(str(error) in reason and "could not be had" in reason for reason in found.skipped)


def test_what_else_goes_wrong_is_no_reason(monkeypatch):
    def broken(*_args, **_options):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(mmap, "mmap", broken)
    with pytest.raises(RuntimeError, match="no such operator"):
        conclusion("addresses", native)
