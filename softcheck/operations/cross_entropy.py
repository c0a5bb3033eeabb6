"""Cross-entropy of each row of logits and its target: log(sum exp x) - x_t, 0 where the target is to be ignored.

With label smoothing s it is log(sum exp x) - (1 - s) x_t - s mean x.

The bound is derived in docs/bounds.md, section 23. With m = max x and L = log(sum exp(x - m)), E_L as in section 19:

    |y - r| <= E_L + rho (4 (|m| + |x_t|) + 2 |r|) + half an ulp of |r|, if the result is rounded to a narrower format

Errors are counted in ulp(max(|m| + L + |x_t|, 1)), since most kernels subtract x_t from m + L, which is rounded.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from oracles.float64 import summation_depth
from oracles.formats import FLOAT32, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError
from softcheck.operations.bounds import Bounds, Model, depth
from softcheck.operations.log_softmax import LOG_SOFTMAX
from softcheck.operations.logsumexp import added, largest, of_logarithms, row_bounds, shown
from softcheck.operations.operation import Limits, Operand, Operation
from softcheck.operations.row_gradient import gradient_of_rows
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, WITHIN_BOUND
from softcheck.operations.targets import of_tensor, of_values, targets
from softcheck.operations.ulp import Flags, Scaled

if TYPE_CHECKING:
    import torch

NO_INDEX = float("-inf")
"""The ``ignore_index`` of a cross-entropy that ignores no row."""


_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class _RowLosses:
    ignored: int | None
    smoothing: float = 0.0

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
        high, low, relative = found.high, np.where(np.isfinite(rest), found.low + rest, 0.0), found.relative_error
        if self.smoothing:
            more, error = self.smoothed(values, picked)
            with np.errstate(divide="ignore", invalid="ignore"):
                off = relative * np.abs(high) + error
                high, low = added(more, high, low)
                relative = np.where(np.isfinite(high) & (high != 0), off / np.abs(high), 0.0)
        high = np.where(np.isposinf(largest(values)), np.nan, high)
        low = np.where(np.isfinite(high) & ~left_out, low, 0.0)
        relative = np.where(left_out, 0.0, relative)
        return replace(found, high=np.where(left_out, 0.0, high), low=low, relative_error=relative)

    def smoothed(self, values: Values, picked: Values) -> tuple[Values, Values]:
        """S (x_t - mean x) and the error of its sum in float64, both [rows, 1]; +inf beside a masked logit."""
        with np.errstate(invalid="ignore"):
            mean, size = values.mean(axis=1, keepdims=True), self.mean_size(values)
            masked = np.isneginf(values).any(axis=1, keepdims=True)
            more = np.where(masked, np.inf, self.smoothing * (picked - mean))
            error = _UNIT * (summation_depth(values.shape[1]) + 4) * self.smoothing * (size + np.abs(picked))
        return more, np.where(masked, 0.0, error)

    def mean_size(self, values: Values) -> Values:
        """The mean of |x|, [rows, 1]; 0 without smoothing, which takes no mean."""
        if not self.smoothing:
            return np.zeros((len(values), 1))
        found: Values = np.abs(values).mean(axis=1, keepdims=True)
        return found

    def answer(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.from_logarithms(values, LOG_SOFTMAX.answer(values, fmt, "nan"))

    def prove(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.from_logarithms(values, LOG_SOFTMAX.prove(values, fmt, "nan"))

    def decimal(self, row: Values, _column: int, fmt: Format, masked: FullyMasked) -> str:
        return shown(self.prove(row[None], fmt, masked))

    def scale(self, values: Values, answers: Values, _fmt: Format) -> Values:
        picked, left_out = self.at_target(values)
        of_mean = self.mean_size(values)
        # The logarithm of the sum is what the answer is more than the other terms.
        size = np.abs(largest(values)) + np.abs(picked) + of_mean + np.abs(answers - largest(values) + picked)
        return np.where(left_out, 1.0, np.maximum(size, 1.0))

    def bounds(self, values: Values, exact: Scaled, answers: Values, constants: Model) -> Bounds:
        picked, left_out = self.at_target(values)
        others = np.abs(largest(values)) + np.abs(picked)
        if self.smoothing:
            # The mean's sum, and products of the terms with 1 - s and s, in whatever order.
            additions = 1.0 + depth(values.shape[1], constants.lanes) * constants.addition / constants.roundoff
            others = 3.0 * others + (3.0 + additions * self.smoothing) * self.mean_size(values)
        found = row_bounds(values, exact, answers, constants, others)
        # An ignored row's 0 is exact.
        return replace(found, elements=np.where(left_out, np.finfo(np.float64).tiny, found.elements))

    def on_device(
        self, x: "torch.Tensor", fmt: Format, model: Model | None, *, strict: bool = False, scale: float = 1.0
    ) -> Limits:
        from softcheck.operations.torch_logarithms import cross_entropy_limits

        assert scale == 1.0, "a cross-entropy depends on the logits themselves"
        return cross_entropy_limits(x, fmt, model, strict=strict, ignored=self.ignored, smoothing=self.smoothing)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        import torch

        index = -100 if self.ignored is None else self.ignored
        target = of_tensor(x, self.ignored)
        losses = torch.nn.functional.cross_entropy(
            x, target, reduction="none", ignore_index=index, label_smoothing=self.smoothing
        )
        return losses[:, None]

    def subtracted(self, values: Values) -> tuple[Values, Flags]:
        index = of_values(values, self.ignored)[:, None]
        onehot = (np.arange(values.shape[1]) == index).astype(np.float64)
        return (1.0 - self.smoothing) * onehot + self.smoothing / values.shape[1], index >= 0


def _overflows(values: Values) -> Flags:
    """Rows whose logits add up to more than float32 holds, so that their mean may be lost, [rows]."""
    found: Flags = np.where(np.isfinite(values), np.abs(values), 0.0).sum(axis=1) > FLOAT32.max / 2
    return found


def _of(*, ignore_index: float = NO_INDEX, label_smoothing: float = 0.0) -> Operation:
    """The cross-entropy with these parameters.

    Raises UsageError for an ``ignore_index`` that may be a column or is no integer, and for a ``label_smoothing`` outside [0, 1).
    """
    ignored = None if ignore_index == NO_INDEX else int(ignore_index)
    if ignored is not None and (ignored >= 0 or ignored != ignore_index):
        raise UsageError(
            f"the ignore_index is {ignore_index:g}; expected a negative integer, such as -100, which is no column"
        )
    if not 0.0 <= label_smoothing < 1.0:
        raise UsageError(f"the label_smoothing is {label_smoothing:g}; expected at least 0 and less than 1")
    of_rows = _RowLosses(ignored, label_smoothing)
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
        parameters={"ignore_index": ignore_index, "label_smoothing": label_smoothing},
        with_parameters=_of,
        arguments=targets(ignored),
        undefined=_overflows if label_smoothing else None,
        scale=of_rows.scale,
        scale_text="of max(|max x| + log-sum + |x_t|, 1)",
        on_device=of_rows.on_device,
        gradient=gradient_of_rows(of_rows.subtracted, "|g| (p + onehot)", is_rounded=label_smoothing > 0),
    )


CROSS_ENTROPY = _of()
