"""Cross-entropy of each row of logits and its target: log(sum exp x) - x_t, 0 where the target is to be ignored.

The bound is derived in docs/bounds.md, section 23. With m = max x and L = log(sum exp(x - m)), E_L as in section 19:

    |y - r| <= E_L + rho (4 (|m| + |x_t|) + 2 |r|) + half an ulp of |r|, if the result is rounded to a narrower format

Errors are counted in ulp(max(|m| + L + |x_t|, 1)), since most kernels subtract x_t from m + L, which is rounded.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oracles.formats import Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.log_softmax import LOG_SOFTMAX
from softcheck.operations.logsumexp import added, largest, of_logarithms, row_bounds, shown
from softcheck.operations.operation import Operand, Operation
from softcheck.operations.row_gradient import gradient_of_rows
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, WITHIN_BOUND
from softcheck.operations.targets import of_tensor, of_values, targets
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

NO_INDEX = float("-inf")
"""The ``ignore_index`` of a cross-entropy that ignores no row."""


@dataclass(frozen=True, slots=True)
class _RowLosses:
    ignored: int | None

    def at_target(self, values: Values) -> tuple[Values, Flags]:
        """The logit at each row's target, 0 if it is ignored, and True where it is; both [rows, 1]."""
        index = of_values(values, self.ignored)[:, None]
        picked = np.take_along_axis(values, np.maximum(index, 0), axis=1) if values.shape[1] else np.zeros(index.shape)
        return np.where(index < 0, 0.0, picked), index < 0

    def from_logarithms(self, values: Values, logarithms: Reference) -> Reference:
        """From the exact log-softmax, whose value at the maximum is -L; m - x_t is exact as two float64."""
        picked, left_out = self.at_target(values)
        distance, rest = added(largest(values), -picked, np.zeros_like(picked))
        found = of_logarithms(values, logarithms, distance)
        low = np.where(np.isfinite(found.high) & np.isfinite(rest) & ~left_out, found.low + rest, 0.0)
        high = np.where(np.isposinf(largest(values)), np.nan, found.high)
        relative = np.where(left_out, 0.0, found.relative_error)
        return replace(found, high=np.where(left_out, 0.0, high), low=low, relative_error=relative)

    def answer(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.from_logarithms(values, LOG_SOFTMAX.answer(values, fmt, "nan"))

    def prove(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.from_logarithms(values, LOG_SOFTMAX.prove(values, fmt, "nan"))

    def decimal(self, row: Values, _column: int, fmt: Format, masked: FullyMasked) -> str:
        return shown(self.prove(row[None], fmt, masked))

    def scale(self, values: Values, answers: Values, _fmt: Format) -> Values:
        picked, left_out = self.at_target(values)
        size = np.abs(largest(values)) + np.abs(picked) + np.abs(answers - largest(values) + picked)
        return np.where(left_out, 1.0, np.maximum(size, 1.0))

    def bounds(self, values: Values, exact: Scaled, answers: Values, constants: Model) -> Bounds:
        picked, left_out = self.at_target(values)
        found = row_bounds(values, exact, answers, constants, np.abs(largest(values)) + np.abs(picked))
        # An ignored row's 0 is exact.
        return replace(found, elements=np.where(left_out, np.finfo(np.float64).tiny, found.elements))

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        import torch

        index = -100 if self.ignored is None else self.ignored
        target = of_tensor(x, self.ignored)
        return torch.nn.functional.cross_entropy(x, target, reduction="none", ignore_index=index)[:, None]

    def subtracted(self, values: Values) -> tuple[Values, Flags]:
        index = of_values(values, self.ignored)[:, None]
        return (np.arange(values.shape[1]) == index).astype(np.float64), index >= 0


def _of(*, ignore_index: float = NO_INDEX) -> Operation:
    """The cross-entropy with this ``ignore_index``. Raises UsageError for one that may be a column or is no integer."""
    ignored = None if ignore_index == NO_INDEX else int(ignore_index)
    if ignored is not None and (ignored >= 0 or ignored != ignore_index):
        raise UsageError(
            f"the ignore_index is {ignore_index:g}; expected a negative integer, such as -100, which is no column"
        )
    of_rows = _RowLosses(ignored)
    return Operation(
        name="cross_entropy",
        operands=(Operand("x", ("rows", "columns")), Operand("target", ("rows",))),
        outputs=(Operand("loss", ("rows",)),),
        families=LOG_SOFTMAX.families,
        relations=(),
        answer=of_rows.answer,
        prove=of_rows.prove,
        decimal=of_rows.decimal,
        bounds=of_rows.bounds,
        rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE),
        yardstick=of_rows.yardstick,
        parameters={"ignore_index": ignore_index},
        with_parameters=_of,
        arguments=targets(ignored),
        scale=of_rows.scale,
        scale_text="of max(|max x| + log-sum + |x_t|, 1)",
        gradient=gradient_of_rows(of_rows.subtracted, "|g| (p + onehot)"),
    )


CROSS_ENTROPY = _of()
