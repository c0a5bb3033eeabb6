"""Why a call ended: the interpreter's limits and the machine's are told from a kernel's own errors."""

import numpy as np
import pytest
import torch
import triton

from oracles.formats import FLOAT32
from softcheck.calling.call import call, place
from softcheck.calling.unable import limit_behind, uninterpretable
from softcheck.cases.case import PACKED
from softcheck.errors import NotCalledError, UninterpretableError
from softcheck.variants.registry import load


def raised(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
        function()
    return caught.value


def limited():
    raise uninterpretable("inline assembly")


def wrapped():
    try:
        limited()
    except UninterpretableError as error:
        raise RuntimeError("in a kernel") from error


def replaced():
    try:
        wrapped()
    except RuntimeError:
        raise ValueError("the fast path failed")  # noqa: B904 - as users write it


def unrelated():
    try:
        limited()
    except UninterpretableError:
        raise ValueError("no such rows") from None


@pytest.mark.parametrize("function", [limited, wrapped, replaced])
def test_the_first_cause_decides(function):
    found = limit_behind(raised(function))
    assert found is not None
    assert str(found) == "Triton's interpreter can't run this: inline assembly; judge it on a GPU"


def not_implemented():
    raise NotImplementedError("rows like these")


@pytest.mark.parametrize(
    "function",
    [
        unrelated,
        not_implemented,
        lambda: torch.zeros(2) + torch.zeros(3),
        lambda: torch.cuda.no_such_name,
        lambda: torch.zeros(2).no_such_name,
    ],
)
def test_other_errors_are_the_kernels_own(function):
    assert limit_behind(raised(function)) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there to be asked")
@pytest.mark.parametrize(
    "ask",
    [
        torch.cuda.current_device,
        torch.cuda.current_stream,
        torch.cuda.synchronize,
        torch.cuda.CUDAGraph,
        torch.cuda.Event,
        torch.cuda.Stream,
        torch.cuda.MemPool,
        torch.cuda.graph_pool_handle,
        torch.cuda.get_device_properties,
        lambda: torch.Event(device="cuda"),
        lambda: torch.Generator(device="cuda"),
        lambda: torch.zeros(1, device="cuda"),
        lambda: torch.zeros(1).pin_memory(),
        lambda: torch._C._cuda_getCurrentRawStream(0),
        torch.accelerator.current_device_index,
        lambda: triton.runtime.driver.active,
    ],
)
def test_asking_for_a_gpu_that_is_not_there_is_no_fault(ask):
    assert "can't run without a GPU" in str(limit_behind(raised(ask)))


def test_a_call_that_shows_nothing_has_no_outcome():
    placed = place(np.zeros((2, 3), dtype=np.uint32), FLOAT32, PACKED, torch.device("cpu"))

    def function(_x):
        wrapped()

    with pytest.raises(UninterpretableError, match="inline assembly"):
        call(function, placed)
    assert call(lambda _: not_implemented(), placed).violations


@pytest.mark.parametrize("error", [IndexError("no such operand"), MemoryError("no room")], ids=["own", "memory"])
def test_failure_to_make_operands_is_laid_to_nobody_but_missing_memory(error):
    def failing(x, names):
        raise error

    loss = load("torch@operation=cross_entropy")
    function = loss.of(loss.operation.making(failing)).function
    placed = place(np.zeros((2, 3), dtype=np.uint32), FLOAT32, PACKED, torch.device("cpu"))
    if isinstance(error, MemoryError):
        (violation,) = call(function, placed, loss.operation).violations
        assert violation.kind == "out_of_memory"
    else:
        with pytest.raises(NotCalledError, match="failed to make the operands of this call: IndexError: no such"):
            call(function, placed, loss.operation)
