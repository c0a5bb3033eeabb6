"""Columns of -inf added to ordinary rows: they get exactly 0, and the other columns stay within the bounds.

The rows grow across block sizes, so that one tile becomes a whole tile of -inf and another tile, before or behind it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracles.formats import encode
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.outcome import Outcome
from softcheck.probes.relations import ChangeProbe, compared

PROPERTY = "padding_invariant"

_COLUMNS = 500
_GROWN = (513, 1025, 4200)
_GROWN_ON_GPU = (501, 513, 1025, 2049, 8200, 65537)
_PLACES = ("leading", "trailing", "interleaved")


class _AppendedMasks(ChangeProbe):
    def changes(self, setting: Setting) -> Sequence[Trial]:
        grown = _GROWN_ON_GPU if setting.on_gpu else _GROWN
        chosen = [n for n in (grown[:2] if setting.quick else grown) if setting.takes(n)]
        return [Trial(f"{place}-{n}", (place, n)) for n in chosen for place in _PLACES]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        fmt = subject.setting.fmt
        place, columns = trial.parameters
        bits = ordinary_rows(8 if subject.setting.on_gpu else 2, _COLUMNS, fmt, subject.setting.seed)
        kept = _kept(place, columns)
        masked = np.full((len(bits), columns), encode(np.array([-np.inf]), fmt)[0], dtype=fmt.storage)
        masked[:, kept] = bits
        words = f"{_COLUMNS} columns with {columns - _COLUMNS} {place} columns of -inf"
        return compared(subject, bits, masked, words=words, name=PROPERTY, of_changed=kept)


PROBE = _AppendedMasks("appended_masks")


def _kept(place: str, columns: int) -> NDArray[np.int64]:
    """Indices of the ordinary columns among all columns."""
    if place == "leading":
        return np.arange(columns - _COLUMNS, columns)
    if place == "trailing":
        return np.arange(_COLUMNS)
    return np.linspace(0, columns - 1, _COLUMNS).astype(np.int64)
