"""Memory that other processes hold is waited for, and its lack is no finding; a request that no GPU could meet is one."""

from types import SimpleNamespace

import pytest
import torch

from softcheck.calling import memory

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A GPU of 80 GiB, on which nothing is cached, and a clock that adds up what is waited."""
    waited = []
    properties = SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: properties)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 0)
    monkeypatch.setattr(memory.time, "sleep", waited.append)
    return waited


def said(asked):
    return f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 80.00 GiB of which 25.62 MiB is free."


@pytest.mark.parametrize("asked", ["32.00 MiB", "2.00 KiB", "512 bytes", "40.00 GiB"])
def test_an_ordinary_request_that_is_not_met_is_nobodys_fault(asked):
    with pytest.raises(torch.OutOfMemoryError, match=asked):
        memory.refuse_lack(torch.OutOfMemoryError(said(asked)), GPU)


def test_what_a_wrapper_makes_of_the_error_is_seen_through():
    error = ValueError("no luck")
    error.__cause__ = torch.OutOfMemoryError(said("1.00 GiB"))
    with pytest.raises(torch.OutOfMemoryError, match=r"1\.00 GiB"):
        memory.refuse_lack(error, GPU)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(said("41.00 GiB")),
        torch.OutOfMemoryError(said("1048576.00 GiB")),
        torch.OutOfMemoryError("out of memory"),
        ValueError(said("1.00 GiB")),
    ],
)
def test_a_request_beyond_half_of_the_device_and_other_errors_are_left_to_the_caller(error):
    memory.refuse_lack(error, GPU)


def test_the_hosts_memory_is_not_shared_in_this_way():
    memory.refuse_lack(torch.OutOfMemoryError(said("1.00 GiB")), CPU)


def failing(times):
    left = [times]

    def make():
        left[0] -= 1
        if left[0] >= 0:
            raise torch.OutOfMemoryError(said("1.00 GiB"))
        return "made"

    return make


def test_memory_is_waited_for(gpu):
    assert memory.patiently(failing(2), GPU) == "made"
    assert len(gpu) == 2


def test_what_never_fits_raises_after_some_attempts(gpu):
    with pytest.raises(torch.OutOfMemoryError):
        memory.patiently(failing(99), GPU)
    assert 0 < sum(gpu) < 10


def test_nothing_is_tried_again_without_a_gpu(gpu):
    with pytest.raises(torch.OutOfMemoryError):
        memory.patiently(failing(1), CPU)
    assert gpu == []
