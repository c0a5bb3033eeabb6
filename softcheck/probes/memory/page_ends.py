"""Inputs and operands at the first and the last mapped address: a read beyond them faults, whatever becomes of the value.

``guard_bands`` sees that an output depends on what lies beyond them. A kernel that reads there and drops the value,
as behind a mask that is one column too wide, gives right answers until its input is the last tensor of a page. Then
the process ends, or a GPU reports an illegal access.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import torch

from softcheck.calling.call import Placed, call_on_device, place, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import only, ordinary_rows, prefixed
from softcheck.probes.memory.pages import UnmappedError, bytes_at_an_edge
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.poison import nan_filled

_SHAPES = ((3, 129), (5, 1030))
"""Rows that fill no tile of rows, and columns that fill no block of a power of two."""

_EDGES = {"inside": "", "end": "behind", "begin": "before"}
"""Places of an input, each with the side on which no memory lies."""
_TRANSPOSED, _OPERANDS = "transposed-", "operands-"


class _EdgeInput(NamedTuple):
    kind: str
    """``_TRANSPOSED``: the columns lie packed one behind the other, so that the rows that a tile has too many end the memory.
    ``_OPERANDS``: each other operand of the call lies at the edge in place of the input."""
    rows: int
    columns: int
    edge: str

    def held(self, values: torch.Tensor) -> torch.Tensor:
        """Returns packed values at the edge."""
        found = bytes_at_an_edge(values.nbytes, values.device, at_end=self.edge == "end")
        return found.view(values.dtype).view(values.shape).copy_(values)

    def placed(self, subject: Subject) -> Placed:
        """Returns the input, at the edge if it is to lie there."""
        fmt, device = subject.setting.fmt, subject.device
        bits = ordinary_rows(self.rows, self.columns, fmt, subject.setting.seed)
        layout = Layout(row_stride=1, column_stride=self.rows) if self.kind == _TRANSPOSED else PACKED
        if self.edge == "inside" or self.kind == _OPERANDS:
            return place(bits, fmt, layout, device)
        view = self.held(to_tensor(bits.T if layout != PACKED else bits, fmt, device))
        return Placed(view if layout == PACKED else view.t(), view.view(-1), fmt)

    def operands(self, _x: torch.Tensor, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Puts operands at the edge, or what stands in the matrix's place if that was asked for; others stay where they are."""
        if self.edge == "inside":
            return given
        moved = {name for name in given if (name == "x") is not (self.kind == _OPERANDS)}
        return {
            name: self.at_edge(each) if isinstance(each, torch.Tensor) and name in moved else each
            for name, each in given.items()
        }

    def at_edge(self, operand: torch.Tensor) -> torch.Tensor:
        """Returns an operand at the edge; one that is not dense where it is."""
        whole = operand.new_empty(0).set_(operand.untyped_storage())
        if operand.requires_grad or whole.numel() != operand.numel():
            return operand
        return self.held(whole).as_strided(operand.shape, operand.stride(), operand.storage_offset())


class PageEnds(Probe):
    """Checks that nothing beyond the input and the other operands is read."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Two shapes, one under the interpreter, packed and transposed: in ordinary memory, where it ends, and where it begins.

        Other operands of a call are packed.
        """
        wanted = _SHAPES if setting.on_gpu and not setting.quick else _SHAPES[:1]
        chosen = [(rows, columns) for rows, columns in wanted if setting.takes(columns)] or [(3, 1)]
        kinds = ["", *[_TRANSPOSED] * ("strided" in setting.declaration.layouts)]
        kinds += [_OPERANDS] * (setting.operation.arguments is not None)
        return [
            Trial(f"{edge}/{kind}{rows}x{columns}", _EdgeInput(kind, rows, columns, edge))
            for kind in kinds
            for edge in _EDGES
            for rows, columns in chosen
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Calls the variant once. On a CPU a read beyond the input ends the process."""
        asked: _EdgeInput = trial.parameters
        try:
            if asked.edge != "inside":
                # Raises here what would be taken for the variant's own exception in the call.
                bytes_at_an_edge(1, subject.device, at_end=True)
            placed = asked.placed(subject)
        except UnmappedError as error:
            return Outcome(skipped=f"inputs beside unmapped memory: {error}")
        variant = subject.variant.changing(asked.operands)
        with nan_filled():
            called = call_on_device(variant.function, placed, subject.setting.operation)
        return Outcome(violations=only(called.violations, FindingKind.CRASH), fatal=called.fatal)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Calls a crash a read out of bounds where the same call in ordinary memory passes."""
        whole = [trial.parameters._replace(edge="inside") for trial, _ in done]
        ends_anyway = {trial.parameters for trial, outcome in done if trial.parameters in whole and outcome.violations}
        return super().conclude(
            [
                (trial, outcome if each in ends_anyway else _as_read(trial.parameters, outcome))
                for each, (trial, outcome) in zip(whole, done, strict=True)
            ]
        )


def _as_read(asked: _EdgeInput, outcome: Outcome) -> Outcome:
    whose = "the operands beside the input" if asked.kind == _OPERANDS else "the input"
    words = f"no memory lies {_EDGES[asked.edge]} {whose}, and the call reached there"
    found = prefixed(outcome.violations, words)
    read = tuple(msgspec.structs.replace(violation, kind=FindingKind.OUT_OF_BOUNDS_READ) for violation in found)
    return msgspec.structs.replace(outcome, violations=read)


PROBE = PageEnds()
