"""Contents of the memory that torch hands out to a variant: poison, so that an unwritten output shows, or what a policy puts there.

Functions of torch are replaced by name. Code that took its own reference to one earlier escapes, as does torch's own C++; users of
``handing_out`` report where it could not act. A dispatch mode would miss nothing, but torch.compile gives a function up for good if
it meets the function under one. The replacements are made once: torch.compile guards on them, and would compile anew for new ones.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch.utils._device import _device_constructors  # no public way to have the list made

# torch lists the functions that ``with torch.device(...)`` acts on at the first use, and must find its own functions.
_device_constructors()

Policy = Callable[[torch.Tensor, bool], torch.Tensor]
"""Returns the tensor to hand out in place of a tensor. The flag is True if the function promises the tensor's
contents."""

_policy: Policy | None = None


@contextmanager
def handing_out(policy: Policy) -> Iterator[None]:
    """Passes every dense tensor that torch's allocating functions return to Python code through the policy."""
    global _policy  # noqa: PLW0603 - the replacements are made once and must find the policy of the moment
    outer = _policy
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _REPLACED]
    for owner, name, replacement in _REPLACED:
        setattr(owner, name, replacement)
    _policy = policy
    try:
        yield
    finally:
        _policy = outer
        for owner, name, original in originals:
            setattr(owner, name, original)


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor's storage as uint8, in the same memory."""
    return torch.tensor([], dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _passing(original: Callable[..., Any], *, initialised: bool) -> Callable[..., Any]:
    @wraps(original)
    def hand_out(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if torch.compiler.is_compiling() or _policy is None or not _has_memory_of_its_own(result, options):
            return result
        policy = _policy
        with handing_out(as_it_is):
            return policy(result, initialised)

    return hand_out


def _has_memory_of_its_own(result: Any, options: dict[str, Any]) -> bool:
    """True if a policy may replace the tensor's memory.

    Fake tensors have none, and an ``out`` belongs to the caller.
    """
    return (
        type(result) is torch.Tensor
        and result.layout == torch.strided
        and result.device.type != "meta"
        and result.numel() > 0
        and options.get("out") is None
        and not options.get("pin_memory")
    )


def as_it_is(tensor: torch.Tensor, _initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
    """The policy that changes nothing, for softcheck's own tensors within another policy."""
    return tensor


_REPLACED: tuple[tuple[Any, str, Callable[..., Any]], ...] = tuple(
    (owner, name, _passing(getattr(owner, name), initialised=initialised))
    for initialised, names in (
        (False, ("empty", "empty_like", "empty_strided")),
        (True, ("zeros", "zeros_like", "ones", "ones_like", "full", "full_like")),
        (False, ("new_empty", "new_empty_strided")),
        (True, ("new_zeros", "new_ones", "new_full")),
    )
    for owner in ((torch.Tensor,) if names[0].startswith("new_") else (torch,))
    for name in names
)


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
def filled(value: float, byte: int | None = None) -> Iterator[None]:
    """Makes torch hand out uninitialised memory that holds one number, or one ``byte`` everywhere. It tells "unwritten" from "computed NaN".

    Integers hold the number rounded up. The replacement acts by name: enough to explain a failure, not to judge alone.
    """

    def fill(tensor: torch.Tensor, initialised: bool) -> torch.Tensor:  # noqa: FBT001 - a Policy
        if initialised:
            return tensor
        if byte is None:
            return tensor.fill_(value if tensor.is_floating_point() else int(value) + 1)
        # A bool of any other byte than 0 and 1 has undefined effects.
        (tensor if tensor.dtype == torch.bool else bytes_of(tensor)).fill_(byte)
        return tensor

    with handing_out(fill):
        yield


def dirty(device: torch.device, sizes: tuple[int, ...], byte: int) -> None:
    """Leaves freed blocks of about these sizes, in bytes, that hold one byte everywhere.

    torch's allocators hand such blocks out again, so memory that torch's own C++ asks for is likely to hold the byte.
    """
    blocks = [torch.full((size,), byte, dtype=torch.uint8, device=device) for size in sizes for _ in range(4)]
    blocks.clear()
