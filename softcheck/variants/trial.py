"""The small random matrix on which calls of a function are tried, and how right their answers are. Imports torch when it is needed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softcheck.operations.operation import Operation
from softcheck.variants.forms import OPERANDS, Form

if TYPE_CHECKING:
    import torch

SHAPE = (24, 16)
"""Shape of the matrix on which calls are tried; its rows can be split into four dimensions of more than one."""

SMALL = (2, 8)
"""Shape for a function that refuses so many elements."""

_CLOSE = 0.1
"""Largest difference of an element that counts as close: of calls that are wrong, that with most such elements is taken."""

_ULPS, _LEAST = 8, 1e-3
"""Largest error of a right answer, relative to the element and to the mean size: in units of the dtype's epsilon, and for wide dtypes.

Answers of two operations, dimensions, alignments, bases or signs differ by far more in most elements of the matrix.
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of one call on the small matrix."""

    form: Form
    """The call, with the answer's place in what it returned."""
    is_something: bool
    """True if it gave anything at all, such as a tensor of whatever shape."""
    share: float = -1.0
    """Share of elements that are close; less than 0 for what is no answer, such as another shape, or NaN alone."""
    is_right: bool = False
    """True if every element is right, up to what the dtype rounds."""


def tried(
    function: Callable[..., Any],
    form: Form,
    operation: Operation,
    on: "tuple[torch.device, torch.dtype]",
    shape: tuple[int, int] = SHAPE,
) -> Tried:
    """Makes a call on the matrix, on a device and in a dtype, and compares it with the operation. Raises what the call raises.

    The matrix is the same for all calls of a shape, and no input of a run.
    """
    import torch

    device, dtype = on
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device=device, dtype=dtype)
    if operation.arguments is not None:
        x = operation.arguments.trial(x, form.names)
    value, form = form.tried(function, x.clone())
    exact = operation.yardstick(x.double())
    if not isinstance(value, torch.Tensor) or not _is_comparable(value, exact) or torch.equal(value.detach(), x):
        return Tried(form, is_something=value is not None)
    # Where NaN is expected, as of a query that sees no key, conventions differ.
    counts = ~exact.isnan()
    found, exact = value.detach().double()[counts], exact[counts]
    if bool(value.isnan().all()) and not form.names & OPERANDS:
        return Tried(form, is_something=True)
    allowed = max(_LEAST, _ULPS * torch.finfo(value.dtype).eps)
    size = exact[exact.isfinite()].abs().mean()
    error = torch.where(found == exact, 0.0, (found - exact).abs())
    is_right = bool((error <= allowed * (exact.abs() + size)).all())
    share = float((error < _CLOSE).double().mean())
    return Tried(form, is_something=True, share=share, is_right=is_right)


def _is_comparable(value: "torch.Tensor", exact: "torch.Tensor") -> bool:
    import torch

    is_dense = value.layout == torch.strided and value.is_floating_point()
    return is_dense and not value.is_meta and value.shape == exact.shape and value.device == exact.device
