"""Guard bands for memory that C++ asks torch's CUDA allocator for: a freed block between two blocks of canaries.

The allocator cuts small blocks off one segment, side by side, and hands out the free block that fits best: a block of
exactly the size. Source: the description of torch.cuda's caching allocator in PyTorch's notes on CUDA semantics. The
address of a tensor shows whether it lies in the hole, so nothing is claimed if the allocator chose another block.
"""

import torch

from softcheck.contract import FindingKind, Violation

_ROUNDED_TO = 512
_LARGEST = 1 << 19
"""Largest size in bytes of a block. Three such blocks and more fit the 2 MiB segments that small blocks are cut
from."""
_TRIES = 12


class Hole:
    """A free block between two blocks of the same size that hold one byte everywhere."""

    def __init__(self, size: int, canary: int, device: torch.device) -> None:
        """Looks for three blocks of ``size`` bytes side by side and frees the middle one; there may be none."""
        self._canary = canary
        self._address: int | None = None
        self._size = size
        rounded = -(-size // _ROUNDED_TO) * _ROUNDED_TO
        if device.type != "cuda" or not 0 < rounded <= _LARGEST:
            return
        # The other blocks are kept: if they were freed, they would fit as well as the hole.
        self._blocks = {
            block.data_ptr(): block
            for block in [torch.full((rounded,), canary, dtype=torch.uint8, device=device) for _ in range(_TRIES)]
        }
        for address in sorted(self._blocks):
            if address - rounded in self._blocks and address + rounded in self._blocks:
                self._address = address
                self._beside = (self._blocks[address - rounded], self._blocks[address + rounded])
                del self._blocks[address]
                return

    def holds(self, output: torch.Tensor) -> bool:
        """True if a tensor lies in the hole."""
        return self._address is not None and output.data_ptr() == self._address

    def overrun(self) -> Violation | None:
        """Returns a violation if a byte beside the hole changed."""
        changed = 0 if self._address is None else sum(int((block != self._canary).sum()) for block in self._beside)
        if not changed:
            return None
        return Violation(
            FindingKind.OUT_OF_BOUNDS_WRITE,
            f"wrote outside the output's {self._size} bytes: {changed} bytes of the memory beside it changed; "
            f"expected the canary {self._canary:#x} to be left alone",
            count=changed,
        )
