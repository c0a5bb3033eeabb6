"""Replacement of the functions through which torch hands out memory to a variant.

The functions are replaced by name. Code that took its own reference to a function earlier escapes, as does torch's own
C++; users of this module report where it could not act. A dispatch mode would miss nothing, but torch.compile gives a
function up for good if it meets the function under one. The replacements are made once: torch.compile guards on them,
and new replacements for every call would make it compile for every call.
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


def fill_bytes(tensor: torch.Tensor, byte: int) -> None:
    """Fills a tensor's whole storage, gaps between its elements included, with one byte."""
    bytes_of(tensor).fill_(byte)


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
