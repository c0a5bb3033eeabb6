"""Matrices without elements: no rows, no columns, and empty slices whose strides and offset are those of a larger matrix.

softmax of an empty tensor is an empty tensor of the same shape and dtype. A launch over zero programs, a tile width computed
from zero columns, or a maximum over nothing raises instead; a kernel that stores its last tile unmasked writes beside it.
"""

from collections.abc import Sequence

import msgspec
import torch

from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial, properties_of, skipped_of
from softcheck.probes.outcome import Conclusion, Outcome, Shown
from softcheck.probes.poison import nan_filled
from softcheck.variants.call import TORCH_DTYPES, Placed, call

_ROWS, _COLUMNS = 6, 8
"""The larger matrix that slices are taken of; it holds NaN, and must hold it after the call."""

_PACKED: dict[str, tuple[int, int]] = {"0x5": (0, 5), "5x0": (5, 0), "0x0": (0, 0)}

_Index = tuple[slice, slice]
_SLICES: dict[str, tuple[_Index, bool]] = {
    "no-rows-inside": ((slice(2, 2), slice(None)), False),
    "no-rows-at-the-end": ((slice(_ROWS, None), slice(None)), False),
    "no-columns-inside": ((slice(None), slice(3, 3)), False),
    "no-columns-of-every-second-row": ((slice(None, None, 2), slice(_COLUMNS, None)), False),
    "neither": ((slice(2, 2), slice(3, 3)), False),
    "no-rows-transposed": ((slice(None), slice(3, 3)), True),
    "no-columns-transposed": ((slice(2, 2), slice(None)), True),
}
"""By label: rows and columns taken of the larger matrix, and whether the slice is transposed then."""


class Empties(Probe):
    """Calls a variant on three empty matrices and on seven empty slices."""

    def trials(self, _setting: Setting) -> Sequence[Trial]:
        """The same in every setting: without elements nothing takes time."""
        return [Trial(label) for label in (*_PACKED, *_SLICES)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """What a call on the empty matrix breaks: exceptions, shape, dtype, and the memory around it."""
        with nan_filled():
            called = call(subject.variant.function, _placed(subject, trial.label))
        return Outcome(violations=called.violations, fatal=called.fatal)

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """One finding per kind, on the first matrix that shows it, with the names of the others."""
        shown: dict[FindingKind, list[Shown]] = {}
        for trial, outcome in done:
            for violation in outcome.violations:
                shown.setdefault(violation.kind, []).append(Shown(trial.label, violation))
        return Conclusion(
            findings=tuple(_first(alike) for alike in shown.values()),
            trials=sum(outcome.skipped is None for _, outcome in done),
            skipped=skipped_of(done),
            properties=properties_of(done),
        )


def _placed(subject: Subject, label: str) -> Placed:
    fmt = subject.setting.fmt
    storage = torch.full((_ROWS * _COLUMNS,), float("nan"), dtype=TORCH_DTYPES[fmt.name], device=subject.device)
    if label in _PACKED:
        rows, columns = _PACKED[label]
        storage = storage[:0].clone()
        return Placed(storage.view(rows, columns), storage, fmt)
    (rows_taken, columns_taken), transposed = _SLICES[label]
    view = storage.view(_ROWS, _COLUMNS)[rows_taken, columns_taken]
    return Placed(view.t() if transposed else view, storage, fmt)


def _first(alike: list[Shown]) -> Shown:
    first, *others = alike
    where = ", ".join(other.label for other in others)
    message = f"{first.label}: {first.violation.message}" + (f"; the same on {where}" if others else "")
    return Shown(first.label, msgspec.structs.replace(first.violation, message=message))


PROBE = Empties()
