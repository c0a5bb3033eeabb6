"""A row alone, first, last and in batches of other sizes: its probabilities must depend on nothing but the row."""

from collections.abc import Sequence
from dataclasses import replace

from softcheck.contract import FindingKind
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import call_on, differing, ordinary_rows, stopped, with_packed_gradients
from softcheck.probes.outcome import Outcome
from softcheck.probes.relations import RelationProbe

PROPERTY = "batch_invariant"

_ROWS_INTERPRETED = 5
_ROWS = 257
_COLUMNS = (100, 700)
_COLUMNS_ON_GPU = (37, 1000, 8191)


class _BatchInvariance(RelationProbe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        widths = _COLUMNS_ON_GPU if setting.on_gpu else _COLUMNS
        chosen = [n for n in widths if setting.takes(n)]
        return [Trial(f"columns-{n}", n) for n in (chosen[:1] if setting.quick else chosen)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        setting = subject.setting
        rows = _ROWS if setting.on_gpu else _ROWS_INTERPRETED
        bits = ordinary_rows(rows, trial.parameters, setting.fmt, setting.seed)
        subject = with_packed_gradients(subject, rows, trial.parameters)
        whole = call_on(subject, bits)
        if whole.output is None:
            return stopped(whole)
        for first, last, words in _batches(rows):
            variant = subject.variant
            if variant.named is not None:
                variant = variant.of(variant.named.of_rows(slice(first, last)))
            part = call_on(replace(subject, variant=variant), bits[first:last])
            if part.output is None:
                return stopped(part)
            found = differing(
                FindingKind.ROW_DEPENDENCE,
                whole.output[first:last],
                part.output,
                setting.fmt,
                f"{words} a batch of {rows} rows give other bits than within it, of {trial.parameters} columns",
                bits[first:last],
            )
            if found is not None:
                promised = setting.declaration.batch_invariant
                return Outcome(violations=(found,) if promised else (), properties={PROPERTY: False})
        return Outcome(properties={PROPERTY: True})


PROBE = _BatchInvariance()


def _batches(rows: int) -> list[tuple[int, int, str]]:
    """Parts of a batch, with the words for them: single rows, and halves that begin and end elsewhere."""
    half = rows // 2
    return [
        (0, 1, "the first row alone of"),
        (rows - 1, rows, "the last row alone of"),
        (0, half, f"the first {half} rows of"),
        (half, rows, f"the last {rows - half} rows of"),
        (1, 3, "the second and third row of"),
    ]
