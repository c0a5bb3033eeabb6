"""Inputs and operands at the first and the last mapped address: a read beyond them faults, whatever becomes of the value.

``guard_bands`` sees that an output depends on what lies beyond them. A kernel that reads there and drops the value,
as behind a mask that is one column too wide, gives right answers until its input is the last tensor of a page. Then
the process ends, or a GPU reports an illegal access.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec
import torch

from softcheck.calling.call import TORCH_DTYPES, Placed, call_on_device, place, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import only, ordinary_rows, prefixed
from softcheck.probes.mapping import UnmappedError, bytes_at_an_edge
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.poison import nan_filled

_SHAPES = ((3, 129), (5, 1030))
"""Rows that fill no tile of rows, and columns that fill no block of a power of two."""

_Edge = Literal["inside", "end", "begin"]
_EDGES: dict[_Edge, str] = {"inside": "", "end": "behind", "begin": "before"}
"""Places of an input, each with the side on which no memory lies."""


class _EdgeInput(NamedTuple):
    rows: int
    columns: int
    edge: _Edge
    is_transposed: bool
    """True if the columns lie packed one behind the other, so that the rows that a tile has too many end the memory."""
    is_of_operands: bool = False
    """True if each other operand of the call lies there in place of the input."""


class PageEnds(Probe):
    """Checks that nothing beyond the input and the other operands is read."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Two shapes, one under the interpreter, packed and transposed: in ordinary memory, where it ends, and where it begins.

        Other operands of a call are packed.
        """
        wanted = _SHAPES if setting.on_gpu and not setting.quick else _SHAPES[:1]
        chosen = [(rows, columns) for rows, columns in wanted if setting.takes(columns)] or [(3, 1)]
        ways = {"": (False, False)}
        if "strided" in setting.declaration.layouts:
            ways["transposed-"] = (True, False)
        if setting.operation.arguments is not None:
            ways["operands-"] = (False, True)
        return [
            Trial(f"{edge}/{name}{rows}x{columns}", _EdgeInput(rows, columns, edge, *way))
            for name, way in ways.items()
            for edge in _EDGES
            for rows, columns in chosen
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Calls the variant once. On a CPU a read beyond the input ends the process."""
        try:
            placed = _placed(subject, trial.parameters)
        except UnmappedError as error:
            return Outcome(skipped=f"inputs beside unmapped memory: {error}")
        variant = subject.variant.changing(partial(_at_an_edge, trial.parameters))
        with nan_filled():
            called = call_on_device(variant.function, placed, subject.setting.operation)
        return Outcome(violations=only(called.violations, FindingKind.CRASH), fatal=called.fatal)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Calls a crash a read out of bounds where the same call in ordinary memory passes."""
        ends_anyway = {
            _whole(trial) for trial, outcome in done if trial.parameters.edge == "inside" and outcome.violations
        }
        return super().conclude(
            [(trial, outcome if _whole(trial) in ends_anyway else _as_read(trial, outcome)) for trial, outcome in done]
        )


def _whole(trial: Trial) -> _EdgeInput:
    asked: _EdgeInput = trial.parameters
    return asked._replace(edge="inside")


def _placed(subject: Subject, asked: _EdgeInput) -> Placed:
    fmt = subject.setting.fmt
    bits = ordinary_rows(asked.rows, asked.columns, fmt, subject.setting.seed)
    if asked.is_of_operands and asked.edge != "inside":
        # Raises here what would be taken for the variant's own exception in the call.
        bytes_at_an_edge(1, subject.device, at_end=True)
    if asked.edge == "inside" or asked.is_of_operands:
        transposed = Layout(row_stride=1, column_stride=asked.rows)
        return place(bits, fmt, transposed if asked.is_transposed else PACKED, subject.device)
    held = bytes_at_an_edge(bits.nbytes, subject.device, at_end=asked.edge == "end")
    storage = held.view(TORCH_DTYPES[fmt.name])
    view = storage.view(bits.T.shape).t() if asked.is_transposed else storage.view(bits.shape)
    view.copy_(to_tensor(bits, fmt, subject.device))
    return Placed(view, storage, fmt)


def _at_an_edge(asked: _EdgeInput, _x: torch.Tensor, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Puts the operands at the edge, or what stands in the matrix's place if that was asked for; others stay where they are."""
    if asked.edge == "inside":
        return given
    return {
        name: _held(asked, each)
        if isinstance(each, torch.Tensor) and (name == "x") is not asked.is_of_operands
        else each
        for name, each in given.items()
    }


def _held(asked: _EdgeInput, operand: torch.Tensor) -> torch.Tensor:
    """An operand at the edge; one that is not dense where it is."""
    whole = operand.new_empty(0).set_(operand.untyped_storage())
    if operand.requires_grad or whole.numel() != operand.numel():
        return operand
    held = bytes_at_an_edge(whole.nbytes, whole.device, at_end=asked.edge == "end")
    moved = held.view(whole.dtype).view(whole.shape).copy_(whole)
    return moved.as_strided(operand.shape, operand.stride(), operand.storage_offset())


def _as_read(trial: Trial, outcome: Outcome) -> Outcome:
    asked: _EdgeInput = trial.parameters
    whose = "the operands beside the input" if asked.is_of_operands else "the input"
    words = f"no memory lies {_EDGES[asked.edge]} {whose}, and the call reached there"
    found = prefixed(outcome.violations, words)
    read = tuple(msgspec.structs.replace(violation, kind=FindingKind.OUT_OF_BOUNDS_READ) for violation in found)
    return msgspec.structs.replace(outcome, violations=read)


PROBE = PageEnds()
