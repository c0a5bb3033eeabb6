"""Test of a variant before it may be timed: its output on the timed shape is judged before its speed counts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from oracles.formats import Bits, decode
from oracles.reference import FullyMasked, Reference
from softcheck.calling.call import describe, returned_wrongly, to_bits, to_tensor
from softcheck.contract import BOUNDED_KINDS, FindingKind
from softcheck.judge.judge import STANDARD, judge, reference
from softcheck.judge.tensor_rows import KINDS, TensorJudge
from softcheck.operations.operation import Operation, as_they_are
from softcheck.probes.poison import nan_filled
from softcheck.speed.inputs import Rotation, as_rows

Function = Callable[[torch.Tensor], Any]

_MOST_OFF = 0.1
"""A row whose sum misses 1 by more was not computed: far beyond rounding, which the judge has looked at."""

_SPECIAL = (FindingKind.NAN_MISMATCH, FindingKind.INF_MISMATCH)


class Vetted(NamedTuple):
    """A variant whose output on the timed shape was judged: the block's answer, and its largest ULP error."""

    answer: torch.Tensor
    max_ulp: float | None


class Vetting:
    """Judges variants on one input."""

    def __init__(self, rotation: Rotation, x: torch.Tensor, operation: Operation) -> None:
        self._rotation = rotation
        self._x = x
        self._operation = operation
        self._exact: dict[FullyMasked, Reference] = {}

    def vet(self, function: Function, fully_masked: FullyMasked = "nan") -> Vetted | str:
        """The judged answer, by what the variant promises for fully masked rows, or why it may not be timed. One failure loses no other's."""
        self._rotation.fill(self._x, 0)
        try:
            with nan_filled():
                output = as_rows(function(self._x), len(self._x))
            return self._judged(output, fully_masked)
        except Exception as error:  # noqa: BLE001 - whatever a variant raises is a reason
            return describe(error)

    def _judged(self, output: object, fully_masked: FullyMasked) -> Vetted | str:
        refused = returned_wrongly(output, self._x, self._operation)
        if refused is not None:
            return refused.message
        assert isinstance(output, torch.Tensor)
        fmt = self._rotation.fmt
        if self._operation.timed_shape is not None:
            return self._judged_on_device(TensorJudge(self._operation, fmt, fmt, fully_masked, STANDARD), output)
        if fully_masked not in self._exact:
            self._exact[fully_masked] = reference(decode(self._rotation.bits, fmt), fmt, fully_masked, self._operation)
        block: Bits = to_bits(output[: self._rotation.distinct], fmt)
        judged = judge(
            self._rotation.bits,
            block,
            fmt,
            fully_masked=fully_masked,
            reference=self._exact[fully_masked],
            operation=self._operation,
        )
        # An inaccurate kernel that does all the work may be timed; one that skips work may not.
        wrong = next((v for v in judged.violations if v.kind not in BOUNDED_KINDS), None)
        if wrong is not None:
            return f"the output on the timed shape is wrong: {wrong.message}"
        # The rest repeats the judged rows; a row that was left out holds NaN, one that was not computed misses 1 by far.
        if self._operation.sums_rows and self._operation.probabilities is as_they_are:
            off = (output.sum(dim=1, dtype=torch.float64) - 1).abs()
            if len(skipped := (~(off < _MOST_OFF)).nonzero()):
                row = int(skipped[0, 0])
                return f"the output on the timed shape is wrong: row {row} of {len(output)} sums to no probability"
        answer = output[: self._rotation.distinct].clone()
        differing = int(self._rotation.wrong_rows(output, answer, 0))
        if differing:
            return f"the output on the timed shape is wrong: {differing} of {len(output)} rows differ from rows of the same logits"
        return Vetted(answer, judged.max_ulp.value if judged.max_ulp else None)

    def _judged_on_device(self, judge: TensorJudge, output: torch.Tensor) -> Vetted | str:
        """Judges the answers of all heads where they lie, one head at a time, since a head may be longer than the numpy judge takes."""
        x, fmt = to_tensor(self._rotation.bits, self._rotation.fmt, output.device), self._rotation.fmt
        largest = 0.0
        for head in range(len(x)):
            rows = judge.judged(x[head : head + 1], output[head : head + 1])
            largest = max(largest, float(rows.errors.nan_to_num(nan=torch.inf).amax()))
            special = sum(int(rows.broken[KINDS.index(kind)].sum()) for kind in _SPECIAL)
            if special or largest > _MOST_OFF * 2.0**fmt.precision:
                return (
                    f"the output on the timed shape is wrong: {special} numbers of head {head} are NaN or infinite where that is not due, or "
                    f"the other way round; the largest error so far is {largest:.3g} ULP, which is more than inaccurate from "
                    f"{_MOST_OFF * 2.0**fmt.precision:.3g} on"
                )
        return Vetted(output.clone(), largest)
