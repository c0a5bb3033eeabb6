"""Other rows beside a first row, or a first and a last one, that looks like a special input, and matrices of such rows alone.

A wrapper that takes a shorter way for some inputs may look at a row or two, or at all, to tell them. Answers are judged, and not compared: a
right kernel may take another way for such a matrix.
"""

from collections.abc import Sequence

import numpy as np

from oracles.formats import Values, decode, encode
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged import Judged, beyond, judged
from softcheck.probes.outcome import Outcome
from softcheck.probes.space.contents import LIKE

_ROWS, _COLUMNS = 7, 66
"""An even number, so that a row may be two equal halves."""
_WIDE, _PEAK = 10.0, 100.0
_WHERE: dict[str, tuple[list[int], str]] = {
    "first": ([0], "beside a first row of"),
    "first-and-last": ([0, _ROWS - 1], "beside a first and a last row of"),
    "every": ([*range(_ROWS)], "where every row is of"),
}


class _FirstRows(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if setting.has_heads or not setting.takes(_COLUMNS):
            return []
        return [Trial(label, asked) for label, asked in _WHERE.items()]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges rows beside such rows, or such rows alone; what is wrong of them beside others is left to the cases."""
        places, words = trial.parameters
        fmt, ordinary = subject.setting.fmt, _rows(subject.setting)
        others = [row for row in range(_ROWS) if row not in places]
        for like, made_of in LIKE.items():
            finite = np.where(np.isfinite(ordinary), ordinary, 0.0)
            special = np.stack([made_of(row) for row in finite]) if not others else made_of(ordinary[1])
            values = ordinary.copy()
            values[places] = special
            found = judged(subject, encode(values, fmt))
            if others and not found.fatal:
                kept = tuple(v for v in found.violations if v.row is None or v.row not in places)
                found = Judged(found.output, kept, found.fatal)
            beside = [ordinary] if others else [np.concatenate([values, ordinary]), np.concatenate([ordinary, values])]
            outcome = beyond(found, lambda: _all(subject, beside), f"{words} {like}")  # noqa: B023 - called at once
            if outcome.violations or outcome.fatal:
                return outcome
        return Outcome()


PROBE = _FirstRows()


def _all(subject: Subject, matrices: Sequence[Values]) -> Judged:
    """Judges matrices, and returns the first that is wrong; the last one where none is."""
    for values in matrices:
        found = judged(subject, encode(values, subject.setting.fmt))
        if found.violations:
            break
    return found


def _rows(setting: Setting) -> Values:
    """Ordinary rows, wide ones, one with a peak in its last column, and one that is padded."""
    found = decode(ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed), setting.fmt)
    found[2:4] *= _WIDE
    found[3, -1] = _PEAK
    found[4, -5:] = -np.inf
    return found
