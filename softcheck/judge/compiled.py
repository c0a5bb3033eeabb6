"""The judge on tensors as torch.compile makes it: one pass over memory in place of some eighty, where a shape is judged often.

A compiler may fuse a product and a sum, which then round once in place of twice. The errors of ``Operation.on_device`` are
those of docs/bounds.md#on-a-device, which counts both roundings; no formula there needs the two, as sums of double words do.
"""

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from softcheck.judge.tensor_rows import TensorJudge, TensorRows
from softcheck.operations.operation import Operation

ENOUGH = 1 << 34
"""Elements of one shape that are judged without compilation, in about the time that it takes: twice all pairs of a dtype."""
_WIDEST = 1024
"""Columns of rows that a compiled program adds up in a tree, so that its sums are at least as good as torch's."""
_MOST = 64
"""Operations, dtypes and shapes that one process compiles for."""
_FEWER_CLEAR = 2.0**-12
"""Part of the rows that may be left to the numpy judge though torch's own rounding of float64 clears them."""

Judge = Callable[[torch.Tensor, torch.Tensor], TensorRows]

_seen: Counter[object] = Counter()
_compiled: dict[object, Judge | None] = {}


def judged(judge: TensorJudge, x: torch.Tensor, y: torch.Tensor) -> TensorRows:
    """Returns ``judge.judged(x, y)``, from a compiled program where many elements of this shape have come before, on a GPU."""
    operation = judge.operation
    if not _is_worth_it(operation, x):
        return judge.judged(x, y)
    named = (operation.name, *sorted(operation.parameters.items()))
    key = (named, judge.fmt, y.dtype, judge.model, judge.of_hidden_row, x.shape, str(x.device))
    _seen[key] += x.numel()
    if _seen[key] < ENOUGH:
        return judge.judged(x, y)
    if key not in _compiled:
        _compiled[key] = compiled(judge, x, y)
    return (_compiled[key] or judge.judged)(x, y)


def _is_worth_it(operation: Operation, x: torch.Tensor) -> bool:
    return x.is_cuda and x.shape[1] <= _WIDEST and operation.parts is None and operation.matrix is None


def compiled(judge: TensorJudge, x: torch.Tensor, y: torch.Tensor) -> Judge | None:
    """Returns ``judge.judged`` compiled for tensors like these; None if it can't be, or contradicts what it was made of."""
    function: Judge = torch.compile(judge.judged, fullgraph=True, dynamic=False)
    faulty_x, faulty_y, columns = x.clone(), y.clone(), y.shape[1]
    for step, value in ((7, torch.nan), (11, torch.inf), (13, -1.0), (17, 0.0), (19, 0.75)):
        faulty_y[step // 2 :: step, step % columns] = value
        faulty_x[step - 1 :: step * step, step % x.shape[1]] = -value
    faulty_x[5::23] = -torch.inf
    try:
        with warnings.catch_warnings(action="ignore"), _quiet(), torch._dynamo.config.patch(recompile_limit=_MOST):  # noqa: SLF001
            agree = all(_agree(function(*given), judge.judged(*given)) for given in ((x, y), (faulty_x, faulty_y)))
    except torch.OutOfMemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever a compiler raises, torch's own operations judge as well
        return None
    return function if agree else None


@contextmanager
def _quiet() -> Iterator[None]:
    """A compiler that fails logs why, and nothing is lost by it."""
    level = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(level)


def _agree(ours: TensorRows, theirs: TensorRows) -> bool:
    """True if our rows are clear only where theirs are, nearly all of those, and have their figures."""
    both = ours.clear & theirs.clear
    lost = theirs.clear & ~ours.clear
    if bool((ours.clear & ~theirs.clear).any()) or lost.sum() > _FEWER_CLEAR * len(lost):
        return False
    figures = ((a[both], b[both]) for a, b in zip(ours, theirs, strict=True) if a.ndim == 1)
    close = all(torch.allclose(a.double(), b.double(), rtol=1e-6, atol=1e-6, equal_nan=True) for a, b in figures)
    # An error next to the edge of a bin may lie on either side.
    return close and not bool(((ours.bins - theirs.bins)[both].abs() > 1).any())
