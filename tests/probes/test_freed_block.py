"""Canaries around memory that C++ asks the CUDA allocator for."""

import pytest
import torch

from softcheck.probes.memory.guard_bands import Hole

SIZES = (774, 7182, 540804 // 2)


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
def test_the_next_tensor_of_the_size_lies_in_the_hole(size):
    hole = Hole(size, 0xC5, torch.device("cuda"))
    tensor = torch.ones(size, dtype=torch.uint8, device="cuda")
    assert hole.holds(tensor)
    assert hole.overrun() is None


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_byte_written_beside_it_is_found(size, side):
    hole = Hole(size, 0xC5, torch.device("cuda"))
    tensor = torch.ones(size, dtype=torch.uint8, device="cuda")
    before, after = hole._beside
    (before[-1:] if side == "before" else after[:1]).fill_(0)
    assert hole.holds(tensor)
    assert "1 bytes of the memory beside it changed" in hole.overrun().message


def test_without_a_gpu_there_is_none():
    hole = Hole(774, 0xC5, torch.device("cpu"))
    assert not hole.holds(torch.empty(774, dtype=torch.uint8))
    assert hole.overrun() is None
