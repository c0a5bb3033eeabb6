"""Means and sums over matrices of other row counts than the cases have: around powers of two, and around numbers of the source.

Losses are added up in chunks, in partial sums or by programs of several rows each, and what is left over may count for too much
or too little.
"""

from collections.abc import Sequence

import numpy as np

from oracles.formats import decode, encode
from softcheck.operations.targets import in_rows
from softcheck.probes import shape_plan
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Outcome
from softcheck.variants.source import source_of

_COLUMNS = 5
_COMMON = (2, 129, 257, 300, 65, 1025, *shape_plan.ROW_COUNTS)
"""Row counts that are tried of any variant, those first that show most."""
_MOST, _MOST_ON_GPU = 1100, 70_000
_SECONDS, _SECONDS_ON_GPU = 4.0, 1.0
_SPREAD = 3.0
"""Growth of some logits from the first row to the last: a row that counts for too much or too little shows."""


class Batches(Probe):
    """Calls a loss that has one answer for a matrix on matrices of many row counts."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns two trials, where a matrix has one answer."""
        found = [Trial("rows", _COMMON)] if setting.has_row_calls else []
        return [*found, Trial("rows-of-the-source", ())] if found and not setting.quick else found

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges a call for each row count, until the time is over."""
        setting = subject.setting
        seconds = _SECONDS_ON_GPU if setting.on_gpu else _SECONDS * setting.time_share
        end = setting.now() + seconds / 2
        tried: list[int] = []
        for rows in trial.parameters or _of_source(subject):
            if setting.now() > end:
                return Outcome(
                    tried=tuple(tried),
                    skipped=f"some row counts were left out: they take over {seconds:g} s",
                    is_cut=True,
                )
            logits = decode(ordinary_rows(1, rows * _COLUMNS, setting.fmt, setting.seed), setting.fmt)
            logits[0, 1::2] += np.linspace(0.0, _SPREAD, logits[0, 1::2].size)
            with in_rows(rows):
                found = judged(subject, encode(logits, setting.fmt))
            tried.append(rows)
            if found.violations or found.fatal:
                words = f"{rows} rows of {_COLUMNS} columns, right for {_in_words(tried[:-1])}"
                return Outcome(violations=prefixed(found.violations, words), tried=tuple(tried), fatal=found.fatal)
        return Outcome(tried=tuple(tried))


PROBE = Batches()


def _of_source(subject: Subject) -> list[int]:
    """Row counts around the numbers of a variant's source and their multiples."""
    setting = subject.setting
    most = _MOST_ON_GPU if setting.on_gpu else _MOST
    own = [n for n in source_of(subject.variant.function).sizes_for(setting.fmt.itemsize) if 1 < n <= most]
    plans = [(n + 1, n + n // 2 + 1, 2 * n, 3 * n - 1) for n in own]
    return [rows for rows in shape_plan.interleaved(plans) if rows <= most]


def _in_words(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts)) + " rows" if counts else "none that was tried before"
