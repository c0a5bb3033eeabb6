"""Input, operands and output inside larger buffers whose margins hold canaries and poison.

A changed canary is an ``out_of_bounds_write``. An output whose bits depend on the poison is an ``out_of_bounds_read``.
The probe sees dependence, not access: a kernel may read beyond its rows and discard the values, and a read beyond the
buffers is not seen. Outputs and workspaces are put in bands if Python code asks torch for them by name. An output that
C++ asked for may be caught on a GPU (see ``hole``). Otherwise the trial is skipped, with the reason.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

from oracles.formats import Bits
from softcheck.calling.call import Called, Returned, all_to_bits, call, call_on_device, to_bits
from softcheck.calling.operands import placing
from softcheck.contract import FindingKind
from softcheck.probes.allocation import handing_out
from softcheck.probes.bands import CANARIES, Bands, margin_bytes, place_in_bands
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.freed_block import Hole
from softcheck.probes.helpers import GroupedProbe, both_repeat, differing, only, ordinary_rows, shapes, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled

_GAP = 7
"""Elements between rows that lie apart: an odd number, so that rows begin at every alignment."""
_ORDINARY = -0.5
_NO_BANDS = (
    "guard bands around the output: its memory did not come from torch.empty or another such function that Python code "
    "calls by name"
)


class _InBands(NamedTuple):
    where: str
    rows: int
    columns: int


class GuardBands(GroupedProbe):
    """Checks that nothing outside input, operands and output is written, and that nothing outside input and operands matters."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Bands around torch's allocations, around the input and operands, and between its rows if strided layouts are declared."""
        wanted = {"output": shapes(setting), "input": shapes(setting)}
        if "strided" in setting.declaration.layouts:
            wanted["gaps"] = shapes(setting) if setting.on_gpu else shapes(setting)[:1]
        if setting.operation.arguments is not None:
            wanted["operands"] = shapes(setting)
        return [
            Trial(f"{where}/{rows}x{columns}", _InBands(where, rows, columns))
            for where, asked in wanted.items()
            for rows, columns in asked
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial; two or three calls if all is well."""
        asked: _InBands = trial.parameters
        bits = ordinary_rows(asked.rows, asked.columns, subject.setting.fmt, subject.setting.seed)
        if asked.where == "output":
            return _around_outputs(subject, bits)
        if asked.where == "operands":
            return _around_operands(subject, bits)
        return _around_input(subject, bits, _GAP if asked.where == "gaps" else 0)


def _around_input(subject: Subject, bits: Bits, gap: int) -> Outcome:
    fmt = subject.setting.fmt

    def in_bands(poison: float, gap: int) -> tuple[Called, Bands]:
        placed = place_in_bands(bits, fmt, poison, subject.device, bits.shape[1] + gap)
        # Allocations lie between margins here too, so that a store beyond one damages nothing in this process.
        bands = Bands(CANARIES[0], margin_bytes(bits.shape[1], fmt.itemsize))
        with nan_filled(), handing_out(bands):
            return call(subject.variant.function, placed, subject.setting.operation), bands

    def called(poison: float) -> Called:
        return in_bands(poison, gap)[0]

    first, bands = in_bands(_ORDINARY, gap)
    if first.output is None:
        return stopped(first)
    # The output may be written with the input's strides, and so overrun. An overrun on packed rows too is for other
    # trials.
    overrun = bands.overrun() if gap else None
    if overrun is not None and in_bands(_ORDINARY, 0)[1].overrun() is None:
        return Outcome(violations=(overrun,))
    violations = list(only(first.violations, FindingKind.OUT_OF_BOUNDS_WRITE))
    for name, poison in (("NaN", float("nan")), ("the largest finite value", fmt.max)):
        other = called(poison)
        if other.output is None:
            return stopped(other)
        message = f"the output changes when the memory around the input holds {name} in place of {_ORDINARY}"
        found = differing(FindingKind.OUT_OF_BOUNDS_READ, first.output, other.output, fmt, message, bits)
        both = ((_ORDINARY, first.output), (poison, other.output))
        if found is not None and both_repeat(both, lambda around: called(around).output, fmt):
            violations.append(found)
            break
    return Outcome(violations=tuple(violations))


def _around_outputs(subject: Subject, bits: Bits) -> Outcome:
    # Workspaces lie between margins too: a value read beyond one changes with the canary.
    banded = partial(_banded, subject, bits, handing_out)
    first, bands = banded(CANARIES[0])
    ended = _compared(subject, bits, first, bands, banded, "the tensors that torch handed out")
    if ended is not None or first.output is None or bands.holds(first.output):
        return Outcome() if ended is None else ended
    return _in_a_hole(subject, bits)


def _around_operands(subject: Subject, bits: Bits) -> Outcome:
    banded = partial(_banded, subject, bits, lambda bands: placing(bands.operand))
    ended = _compared(subject, bits, *banded(CANARIES[0]), banded, "the operands")
    return Outcome() if ended is None else ended


def _compared(
    subject: Subject,
    bits: Bits,
    first: Returned,
    bands: Bands,
    banded: Callable[[int], tuple[Returned, Bands]],
    around: str,
) -> Outcome | None:
    """Compares the first call with one between other canaries; returns what ends the trial, if anything does.

    Outputs that differ are a read only if equal calls repeat theirs.
    """
    fmt = subject.setting.fmt
    if first.output is None:
        return stopped(first)
    overrun = bands.overrun()
    if overrun is not None:
        return Outcome(violations=(overrun,))
    second, _ = banded(CANARIES[1])
    if second.output is None:
        return stopped(second)
    one, other = all_to_bits([first.output, second.output], fmt)
    message = f"the output changes with what lies around {around}"
    read = differing(FindingKind.OUT_OF_BOUNDS_READ, one, other, fmt, message, bits)
    if read is None:
        return None

    def again(canary: int) -> Bits | None:
        output = banded(canary)[0].output
        return None if output is None else to_bits(output, fmt)

    both = tuple(zip(CANARIES, (one, other), strict=True))
    return Outcome(violations=(read,)) if both_repeat(both, again, fmt) else None


def _in_a_hole(subject: Subject, bits: Bits) -> Outcome:
    """Does the same for an output that C++ asked memory for, if it comes to lie between canaries."""
    placed = place_in_bands(bits, subject.setting.fmt, _ORDINARY, subject.device)
    hole = Hole(bits.nbytes, CANARIES[0], subject.device)
    with nan_filled():
        returned = call_on_device(subject.variant.function, placed, subject.setting.operation)
    if returned.output is None:
        return stopped(returned)
    if not hole.holds(returned.output):
        return Outcome(skipped=_NO_BANDS)
    overrun = hole.overrun()
    return Outcome() if overrun is None else Outcome(violations=(overrun,))


def _banded(
    subject: Subject, bits: Bits, within: Callable[[Bands], AbstractContextManager[None]], canary: int
) -> tuple[Returned, Bands]:
    """Calls within what puts tensors between canaries, and returns these with what the call returned."""
    fmt = subject.setting.fmt
    bands = Bands(canary, margin_bytes(bits.shape[1], fmt.itemsize))
    placed = place_in_bands(bits, fmt, _ORDINARY, subject.device)
    with nan_filled(), within(bands):
        return call_on_device(subject.variant.function, placed, subject.setting.operation), bands


PROBE = GuardBands()
