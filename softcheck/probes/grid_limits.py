"""Row counts around the limits of grids (65535 in y and z) and of persistent grids, and 0 rows."""

from collections.abc import Sequence

from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.outcome import Conclusion, Outcome
from softcheck.probes.sweep import conclude_sweep, sweep

_FEW = (0, 1, 2, 3, 5, 9, 17)
"""Row counts under the interpreter: more rows than the 4 programs of a persistent grid, or than a tile of several
rows."""
_MORE = (31, 33, 64, 65, 127, 129, 132, 133, 257, 1025)
_MANY = (65535, 65536, 65537, 2**20 + 1)

_COLUMNS_INTERPRETED = 300
_COLUMNS = 5


class _GridLimits(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if not setting.takes(_columns(setting)):
            return []
        few = _FEW if setting.declaration.empty else _FEW[1:]
        if not setting.on_gpu:
            return [Trial("few", few[:5] if setting.quick else few)]
        # One trial each: a grid that is too large may ruin the device.
        many = [Trial(f"rows-{rows}", (rows,)) for rows in setting.held(_counts(setting), _COLUMNS)]
        return many[:2] if setting.quick else [Trial("few", (*few, *_MORE)), *many]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        setting = subject.setting
        columns = _columns(setting)
        return sweep(subject, trial.parameters, lambda rows: ordinary_rows(rows, columns, setting.fmt, setting.seed))

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        return conclude_sweep(done, "rows", "row counts")


PROBE = _GridLimits()


def _counts(setting: Setting) -> Sequence[int]:
    # Of float64 the numpy judge would take minutes for a million matrices.
    return _MANY[:-1] if setting.dtype == "float64" and setting.operation.matrix is not None else _MANY


def _columns(setting: Setting) -> int:
    return _COLUMNS if setting.on_gpu else _COLUMNS_INTERPRETED
