"""Rows of an output beside their exact values on a device: errors, shares, and what is broken, as far as torch's float64 knows."""

from typing import Any, NamedTuple

import numpy as np
import torch

from oracles.formats import Format
from oracles.reference import FullyMasked
from softcheck.contract import FindingKind
from softcheck.judge import histogram
from softcheck.operations import elements
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.operation import CERTAIN, Operation
from softcheck.operations.rules import ElementRule
from softcheck.operations.torch_bounds import limits_of
from softcheck.operations.ulp import LARGEST

_MARGIN = 2.0**-30
"""Distance of a share from 1 that float64 decides, beside the uncertainty of the exact value."""
_COUNTED = 2.0**-20
"""ULPs of an error that shows nowhere, on either side of a power of two, as in ``softcheck.operations.elements``."""
_LEAST_LIMIT = 0.5
"""ULPs of the smallest limit: no arithmetic's error is smaller than half an ULP of its result's."""


class TensorRows(NamedTuple):
    """Judged rows: tensors are [rows], where each part of an answer is a row if an operation has ``parts``."""

    clear: torch.Tensor
    """True for rows that surely keep every promise, and whose figures float64's own error can't change; of the parts of a
    matrix's row all are, or none."""
    ordinary: torch.Tensor
    hidden: torch.Tensor
    """True for rows of -inf alone."""
    elements: torch.Tensor
    """Elements that have an error."""
    errors: torch.Tensor
    """The largest error in ULPs, -1 if no element has one."""
    error_sums: torch.Tensor
    flushing: torch.Tensor
    """The largest error in a format without subnormals."""
    shares: torch.Tensor
    """The largest error over limit, -1 if no element has a limit; may be NaN in a row that is not clear."""
    deviations: torch.Tensor
    """|sum - 1|, -1 if the row has no sum."""
    flushed: torch.Tensor
    broken: torch.Tensor
    """Counts of broken promises, [len(KINDS), rows]."""
    bins: torch.Tensor
    """The bins of errors (``softcheck.judge.histogram``), int32 [rows, columns], 0 where an element has none."""


KINDS = (
    FindingKind.ULP_EXCEEDS_BOUND,
    FindingKind.NAN_MISMATCH,
    FindingKind.INF_MISMATCH,
    FindingKind.OUT_OF_RANGE,
    FindingKind.MASKED_NOT_ZERO,
    FindingKind.SUM_VIOLATION,
)
"""Figures that the judge on tensors counts."""


class TensorJudge:
    """The judge of rows of one operation, output format and arithmetic."""

    def __init__(
        self, operation: Operation, fmt: Format, output_fmt: Format, fully_masked: FullyMasked, arithmetic: Arithmetic
    ) -> None:
        self.operation, self.fmt, self.input_fmt = operation, output_fmt, fmt
        self.fully_masked, self.arithmetic = fully_masked, arithmetic
        self.model = model(arithmetic, output_fmt)
        self.least, self.most = next(
            (rule.range for rule in operation.rules if isinstance(rule, ElementRule) and rule.range), (-np.inf, np.inf)
        )
        of_hidden = float(operation.answer(np.full((1, 1), -np.inf), fmt, fully_masked).values[0, 0])
        self.of_hidden_row = None if operation.answers_rows or np.isnan(of_hidden) else of_hidden
        """The answer for a row of -inf, where it is a convention other than NaN."""

    def judged(self, x: torch.Tensor, y: torch.Tensor) -> TensorRows:
        """Judges rows of the input and of the output, both contiguous."""
        found = limits_of(self.operation, x, self.fmt, self.model)
        exact, per_ulp, logits, output = (
            found.exact,
            found.per_ulp,
            found.logits,
            y.to(torch.float64).reshape(found.exact.shape),
        )
        hidden = logits.amax(dim=1) == -torch.inf
        if self.of_hidden_row is not None:
            exact = exact.masked_fill(hidden[:, None], self.of_hidden_row)
            per_ulp = per_ulp.masked_fill(hidden[:, None], 1.0)
        per_row = not self.operation.answers_logits
        hides = self.operation.parts is not None and not per_row
        # Written for arrays and tensors.
        sort: Any = elements.specials
        kinds = sort(logits, output, exact, self.fmt, per_row=per_row, hides=hides)
        if found.undefined is not None:
            kinds = kinds.without(found.undefined)
        comparable, bounded, ordinary = kinds.comparable, kinds.bounded, kinds.ordinary

        # Equal values have no error, though 0 times the ULP of a NaN may have.
        errors = torch.where(output == exact, 0.0, (output - exact).abs() * per_ulp).clamp(max=LARGEST)
        limits = found.limits if found.below is None else torch.where(output < exact, found.below, found.limits)
        each = torch.where(bounded, errors / limits, -1.0)
        shares = each.amax(dim=1)
        clear = (shares <= 1.0 - _MARGIN - found.uncertainty / _LEAST_LIMIT) & (found.uncertainty <= CERTAIN)
        if found.least is not None and found.most is not None:
            outside = _outside(output, found.least, found.most, 0.0) & bounded
            clear &= ~(_outside(output, found.least, found.most, _MARGIN) & bounded).any(dim=1)
        else:
            # Above the range an element may be by its bound, if it has one.
            above = (output > self.most) & ~(bounded & ((output - self.most) * per_ulp <= limits))
            outside = ((output < self.least) | above) & comparable
        not_zero = kinds.masked_wrong & self.operation.hides_by_zero
        of_elements = (each > 1.0, kinds.nan_mismatch, kinds.inf_mismatch, outside, not_zero)
        broken = [element.sum(dim=1) for element in of_elements]

        deviations, of_sums = torch.full_like(shares, -1.0), torch.zeros_like(broken[0])
        if found.sums is not None and self.operation.sums_rows:
            has_sum = ordinary & (comparable | kinds.as_infinite).all(dim=1)
            off, kept = self._sums(output, found.sums)
            deviations, of_sums = torch.where(has_sum, off, -1.0), (has_sum & (off > found.sums)).to(torch.int64)
            clear &= kept | ~has_sum
        broken.append(of_sums)
        counted = torch.where(comparable, errors, 0.0)
        largest = torch.where(comparable, errors, -1.0).amax(dim=1)
        flushing, flushed = largest, torch.zeros_like(broken[0])
        if self.operation.scale is None:
            in_ulps = exact * per_ulp
            below_normal = (in_ulps < 2.0 ** (self.fmt.precision - 1)) & comparable
            flushed = (below_normal & (in_ulps > 0.5) & (output == 0)).sum(dim=1)
            native = below_normal & ((output == 0) | (output.abs() == self.fmt.least_normal))
            flushing = torch.where(native, counted * 2.0 ** (1 - self.fmt.precision), counted).amax(dim=1)
            clear &= ~self._on_a_side(in_ulps, per_ulp, errors, output, found.uncertainty).any(dim=1)
        bins = ((counted.view(torch.int64) >> histogram.SHIFT) - (histogram.FIRST - 1)).clamp(min=0).to(torch.int32)
        counts = torch.stack(broken)
        return TensorRows(
            clear=_of_whole_rows(clear & (counts == 0).all(dim=0), len(x)),
            ordinary=ordinary,
            hidden=hidden,
            elements=comparable.sum(dim=1),
            errors=largest,
            error_sums=counted.sum(dim=1),
            flushing=flushing,
            shares=shares,
            deviations=deviations,
            flushed=flushed,
            broken=counts,
            bins=bins,
        )

    def _sums(self, output: torch.Tensor, allowed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns |sum - 1| of each row, and the rows that surely keep what is allowed."""
        values: torch.Tensor = self.operation.probabilities(output)  # type: ignore[arg-type, assignment]
        off = (values.sum(dim=1) - 1.0).abs()
        own = 2.0**-53 * (output.shape[1] / 32 + 64) * (1.0 + off)
        return off, off + own <= allowed * (1.0 - _MARGIN)

    def _on_a_side(
        self,
        in_ulps: torch.Tensor,
        per_ulp: torch.Tensor,
        errors: torch.Tensor,
        output: torch.Tensor,
        slack: float | torch.Tensor,
    ) -> torch.Tensor:
        """Returns the elements whose ULP, or flush to zero, depends on the side of a power of two on which r lies."""
        floor = 2.0 ** (self.fmt.precision - 1)
        subnormal = per_ulp == 1.0 / self.fmt.least_subnormal
        from_floor = in_ulps - floor
        other_ulp = ((from_floor < slack) & ~subnormal) | (from_floor + slack >= floor)
        at_zero = subnormal & (output == 0) & ((from_floor.abs() <= slack) | ((in_ulps - 0.5).abs() <= slack))
        return (other_ulp & (errors > _COUNTED)) | at_zero


def _of_whole_rows(clear: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns the parts, bool [rows * parts], whose rows are clear in all parts."""
    if len(clear) == rows:
        return clear
    parts = clear.view(rows, -1)
    return parts.all(dim=1, keepdim=True).expand_as(parts).flatten()


def _outside(output: torch.Tensor, least: torch.Tensor, most: torch.Tensor, margin: float) -> torch.Tensor:
    """Returns the elements that lie outside of their ranges, or so near an end that float64's rounding decides."""
    slack = torch.maximum(least.abs(), most.abs()) * margin
    return (output < least + slack) | (output > most - slack)
