"""Input, operands and output inside larger buffers whose margins hold canaries and poison.

A changed canary is an ``out_of_bounds_write``. An output whose bits depend on the poison is an ``out_of_bounds_read``.
The probe sees dependence, not access: a kernel may read beyond its rows and discard the values, and a read beyond the
buffers is not seen. Outputs and workspaces are put in bands if Python code asks torch for them by name. An output that
C++ asked for may be caught on a GPU (see ``bands.Hole``). Otherwise the trial is skipped, with the reason.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from oracles.formats import Bits
from softcheck.calling.call import Called
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import Repeated, call_placed, only, ordinary_rows, shapes, stopped, unlike
from softcheck.probes.memory.bands import CANARIES, ORDINARY, Bands, Hole, call_in_bands, on_host, place_in_bands
from softcheck.probes.outcome import Outcome

_GAP = 7
"""Elements between rows that lie apart: an odd number, so that rows begin at every alignment."""
_NO_BANDS = (
    "guard bands around the output: its memory did not come from torch.empty or another such function that Python code "
    "calls by name"
)
_OUTPUT, _OPERANDS, _GAPS = "output", "operands", "gaps"


class _GuardBands(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Bands around torch's allocations, around the input and operands, and between its rows if strided layouts are declared."""
        wanted = {_OUTPUT: shapes(setting), "input": shapes(setting)}
        if "strided" in setting.declaration.layouts:
            wanted[_GAPS] = shapes(setting) if setting.on_gpu else shapes(setting)[:1]
        if setting.operation.arguments is not None:
            wanted[_OPERANDS] = shapes(setting)
        return [
            Trial(f"{where}/{rows}x{columns}", (where, rows, columns))
            for where, asked in wanted.items()
            for rows, columns in asked
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Calls the variant between margins, and again with something else in those that the trial is for."""
        where, rows, columns = trial.parameters
        fmt = subject.setting.fmt
        bits = ordinary_rows(rows, columns, fmt, subject.setting.seed)
        usual, others = _ways(where, fmt.max)
        made = call_in_bands(subject, bits, **usual)
        if made.returned.output is None:
            return stopped(made.returned)
        overrun = {_OUTPUT: made.handed_out, _GAPS: made.handed_out, _OPERANDS: made.lent}.get(
            where, Bands(0, 0)
        ).overrun()
        # The output may be written with the input's strides, and so overrun. An overrun on packed rows too is for other trials.
        if overrun is not None and not (
            where == _GAPS and call_in_bands(subject, bits).handed_out.overrun() is not None
        ):
            return Outcome(violations=(overrun,))

        def again(way: dict[str, Any]) -> Called:
            return on_host(call_in_bands(subject, bits, **way).returned, fmt)

        violations = only(made.returned.violations, FindingKind.OUT_OF_BOUNDS_WRITE)
        plain = Repeated(partial(again, usual), on_host(made.returned, fmt))
        for message, way in others.items():
            ended = unlike(
                plain, Repeated(partial(again, way)), FindingKind.OUT_OF_BOUNDS_READ, message, fmt, inputs=bits
            )
            if ended is not None:
                return msgspec.structs.replace(ended, violations=(*violations, *ended.violations))
        if where == _OUTPUT and not made.handed_out.holds(made.returned.output):
            return _in_a_hole(subject, bits)
        return Outcome(violations=violations)


PROBE = _GuardBands()


def _ways(where: str, largest: float) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns what the margins hold at first, and what they hold instead, by words for an output that changes with it."""
    # Workspaces lie between margins too: a value read beyond one changes with the canary.
    around = {_OUTPUT: ("canary", "tensors that torch handed out"), _OPERANDS: ("of_operands", "operands")}
    if where in around:
        name, whose = around[where]
        message = f"the output changes with what lies around the {whose}"
        return {name: CANARIES[0]}, {message: {name: CANARIES[1]}}
    gap = {"gap": _GAP} if where == _GAPS else {}
    poisons = {"NaN": float("nan"), "the largest finite value": largest}
    said = "the output changes when the memory around the input holds {} in place of {}"
    return gap, {said.format(name, ORDINARY): {**gap, "around": poison} for name, poison in poisons.items()}


def _in_a_hole(subject: Subject, bits: Bits) -> Outcome:
    """Does the same for an output that C++ asked memory for, if it comes to lie between canaries."""
    placed = place_in_bands(bits, subject.setting.fmt, ORDINARY, subject.device)
    hole = Hole(bits.nbytes, CANARIES[0], subject.device)
    returned = call_placed(subject, placed)
    if returned.output is None:
        return stopped(returned)
    if not hole.holds(returned.output):
        return Outcome(skipped=_NO_BANDS)
    overrun = hole.overrun()
    return Outcome() if overrun is None else Outcome(violations=(overrun,))
