"""Other rows beside a first row, or a first and a last one, that looks like a special input, and matrices of such rows alone.

A wrapper that takes a shorter way for some inputs may look at a row or two, or at all, to tell them. Answers are judged, and not compared: a
right kernel may take another way for such a matrix.
"""

from collections.abc import Callable, Sequence

import numpy as np

from oracles.formats import Values, decode, encode
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Outcome
from softcheck.probes.relations import RelationProbe

_ROWS, _COLUMNS = 7, 66
"""An even number, so that a row may be two equal halves."""
_WIDE, _PEAK = 10.0, 100.0


def _place(row: Values) -> Values:
    return np.arange(row.size, dtype=np.float64)


_LIKE: dict[str, Callable[[Values], Values]] = {
    "zeros": np.zeros_like,
    "one number": lambda row: np.full_like(row, 1.5),
    "ascending numbers": np.sort,
    "descending numbers": lambda row: np.sort(row)[::-1],
    "whole numbers": lambda row: np.round(4 * row),
    "zeros and ones": lambda row: _place(row) % 2,
    "numbers above 0 and zeros": lambda row: np.maximum(row, 0.0),
    "small numbers": lambda row: row / 1024,
    "probabilities": lambda row: np.exp(row) / np.exp(row).sum(),
    "logarithms of probabilities": lambda row: row - np.log(np.exp(row).sum()),
    "0 in one column and -inf elsewhere": lambda row: np.where(_place(row) == 7, 0.0, -np.inf),
    "-inf behind the first column": lambda row: np.where(_place(row) == 0, row, -np.inf),
    "-inf in the last half": lambda row: np.where(_place(row) < row.size // 2, row, -np.inf),
    "two equal halves": lambda row: np.concatenate([row[: row.size // 2]] * 2),
    "each number twice": lambda row: np.repeat(row[: row.size // 2], 2),
    "-inf in the first and last columns": lambda row: np.where(
        abs(_place(row) - row.size / 2) < row.size / 3, row, -np.inf
    ),
}
_WHERE: dict[str, tuple[list[int], str]] = {
    "first": ([0], "beside a first row of"),
    "first-and-last": ([0, _ROWS - 1], "beside a first and a last row of"),
    "every": ([*range(_ROWS)], "where every row is of"),
}


class _FirstRows(RelationProbe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if setting.has_heads or not setting.takes(_COLUMNS):
            return []
        return [Trial(label, asked) for label, asked in _WHERE.items()]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges rows beside such rows; what is wrong of the special rows is left to the cases."""
        places, words = trial.parameters
        fmt, ordinary = subject.setting.fmt, _rows(subject.setting)
        if len(places) == _ROWS:
            return _of_every_row(subject, ordinary, words)
        plain = judged(subject, encode(ordinary, fmt))
        for like, made_of in _LIKE.items():
            values = ordinary.copy()
            values[places] = made_of(ordinary[1])
            found = judged(subject, encode(values, fmt))
            if found.fatal:
                return Outcome(violations=found.violations, fatal=True)
            own = [v for v in found.beyond(plain) if v.row is None or v.row not in places]
            if own:
                return Outcome(violations=prefixed(own, f"{words} {like}"))
        return Outcome()


def _of_every_row(subject: Subject, ordinary: Values, words: str) -> Outcome:
    """Judges matrices whose rows are all of one kind; what is wrong of such rows beside others too is found elsewhere."""
    fmt = subject.setting.fmt
    finite = np.where(np.isfinite(ordinary), ordinary, 0.0)
    for like, made_of in _LIKE.items():
        rows = np.stack([made_of(row) for row in finite])
        found = judged(subject, encode(rows, fmt))
        if found.fatal:
            return Outcome(violations=found.violations, fatal=True)
        mixed = ([rows, ordinary], [ordinary, rows])
        if found.violations and not any(
            judged(subject, encode(np.concatenate(each), fmt)).violations for each in mixed
        ):
            return Outcome(violations=prefixed(found.violations, f"{words} {like}"))
    return Outcome()


PROBE = _FirstRows()


def _rows(setting: Setting) -> Values:
    """Ordinary rows, wide ones, one with a peak in its last column, and one that is padded."""
    found = decode(ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed), setting.fmt)
    found[2:4] *= _WIDE
    found[3, -1] = _PEAK
    found[4, -5:] = -np.inf
    return found
