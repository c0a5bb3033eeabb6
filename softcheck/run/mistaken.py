"""Tells of which other operation a function's answers are, where they are not those of the one that it is judged by."""

from collections.abc import Iterator

import torch

from softcheck.calling import launches
from softcheck.errors import UsageError
from softcheck.operations.operation import Operation, Parameter, value_in_words
from softcheck.operations.registry import OPERATIONS
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.adapt import Adapted
from softcheck.variants.registry import LoadedVariant

_SHAPE = (6, 9)
_SPREAD = 3.0
"""Spread of the logits of a trial: answers of two operations differ there in every element."""
_ULPS, _LEAST = 8, 1e-3
"""Largest relative difference from an operation's answers, in units of the dtype's epsilon, and for wide dtypes."""


def other_operation(variant: LoadedVariant, x: torch.Tensor, output: object) -> str:
    """Returns the options of a report for the operation whose answers a function gives, such as ``--operation log_softmax``.

    ``output`` is what it returned for the matrix ``x``. Returns an empty text where that is right, where no other operation of
    the same operands explains every element of a small trial, and for a function that takes the matrix as it is.
    """
    function, judged = variant.function, variant.operation
    if not isinstance(function, Adapted) or not function.is_known or _is_of(judged, output, x):
        return ""
    generator = torch.Generator().manual_seed(0)
    trial = (_SPREAD * torch.randn(_SHAPE, generator=generator)).to(device=x.device, dtype=x.dtype)
    with launches.forgotten():
        for other, options in _others(judged):
            try:
                answer = function.with_operation(other)(trial.clone())
            except Exception:  # noqa: BLE001, S112 - a function may raise anything on other operands
                continue
            if _is_of(other, answer, trial):
                return options
    return ""


def _others(judged: Operation) -> Iterator[tuple[Operation, str]]:
    """The other operations of the same operands, with natural logarithms and with those of base 2."""
    usual = operation_of(judged.name).parameters
    changed = {name: value for name, value in judged.parameters.items() if value != usual[name]}
    for name in OPERATIONS:
        if name == judged.name or operation_of(name).operands != judged.operands:
            continue
        for more in ({}, {"base": 2.0}):
            given: dict[str, Parameter] = {**changed, **more}
            declared = f" --declare {','.join(f'{each}={value_in_words(value)}' for each, value in more.items())}"
            try:
                yield operation_of(name, given), f"--operation {name}{declared if more else ''}"
            except UsageError:
                # It has no such parameter.
                continue


def _is_of(operation: Operation, output: object, x: torch.Tensor) -> bool:
    """True if an output is an operation's answers for a matrix, up to what its dtype rounds."""
    exact = operation.yardstick(x.double())
    if not isinstance(output, torch.Tensor) or output.shape != exact.shape or output.device != exact.device:
        return False
    if output.layout != torch.strided or not output.is_floating_point():
        return False
    allowed = max(_LEAST, _ULPS * torch.finfo(output.dtype).eps)
    return torch.allclose(output.detach().double(), exact, rtol=allowed, atol=torch.finfo(output.dtype).tiny)
