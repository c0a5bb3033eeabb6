"""Poison for memory that torch hands out uninitialised, so that an unwritten output shows."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from softcheck.probes.allocation import fill_bytes, handing_out


@contextmanager
def nan_filled(*, filling: bool = True) -> Iterator[None]:
    """Fills every ``torch.empty`` of any kind with NaN, inside torch itself, so that no import order escapes it.

    Integers are filled with their largest value. ``filling=False`` changes only the filling, for comparisons between
    the two: under deterministic algorithms torch.compile compiles anew, and operations may take another form.

    Source: torch.utils.deterministic.fill_uninitialized_memory, which acts while deterministic algorithms are on.
    "warn" keeps operations that have no deterministic form working. (torch.use_deterministic_algorithms does the same,
    but imports torch.compile's machinery first, which takes seconds in every process, and changes the code that
    Inductor compiles.)
    """
    mode = torch.get_deterministic_debug_mode()
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = filling  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
        torch.set_deterministic_debug_mode(mode)


@contextmanager
def filled(value: float) -> Iterator[None]:
    """Makes torch hand out uninitialised memory filled with one value. It tells "unwritten" from "computed NaN".

    Integers hold the value rounded up. The replacement acts by name (see ``allocation``): enough to explain a failure,
    not to judge alone.
    """

    def fill(tensor: torch.Tensor, initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
        if not initialised:
            tensor.fill_(value if tensor.is_floating_point() else int(value) + 1)
        return tensor

    with handing_out(fill):
        yield


@contextmanager
def filled_with_bytes(byte: int) -> Iterator[None]:
    """Makes torch hand out uninitialised memory that holds one byte everywhere. Acts by name, like ``filled``."""

    def fill(tensor: torch.Tensor, initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
        if initialised:
            return tensor
        if tensor.dtype == torch.bool:
            # A bool of any other byte than 0 and 1 has undefined effects.
            return tensor.fill_(True)
        fill_bytes(tensor, byte)
        return tensor

    with handing_out(fill):
        yield


def dirty(device: torch.device, sizes: tuple[int, ...], byte: int) -> None:
    """Leaves freed blocks of about these sizes, in bytes, that hold one byte everywhere.

    torch's allocators hand such blocks out again, so memory that torch's own C++ asks for is likely to hold the byte.
    """
    blocks = [torch.full((size,), byte, dtype=torch.uint8, device=device) for size in sizes for _ in range(4)]
    blocks.clear()
