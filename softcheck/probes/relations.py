"""Rows that are changed in what must not matter: their columns' order, a constant added, -inf beside them, the rest of the batch.

Each of these is a table of changes. The changed rows' answers are judged; that their bits stay the same is a property, and a promise
where a declaration says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits, Values, decode, encode
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import (
    call_on,
    differing,
    ordinary_rows,
    prefixed,
    same_bits,
    stopped,
    with_packed_gradients,
)
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Outcome

_SHIFTS = {
    "float16": (128.0, 1e3, 1e4, 6e4),
    "bfloat16": (16.0, 128.0, 1e4, 1e30),
    "float32": (1e4, 8e6, 1e8, 1e14),
    "float64": (1e4, 4e15, 1e17, 1e30),
}
"""Constants at which the spacing is up to about 1/8, 1, 8, and more than any spread that leaves two probabilities above 0."""
_SHIFTED, _PERMUTED, _PERMUTED_ON_GPU, _PADDED = 130, 700, 5000, 500
"""Columns of the rows."""
_GROWN, _GROWN_ON_GPU = (513, 1025, 4200), (501, 513, 1025, 2049, 8200, 65537)
"""Columns of padded rows, across block sizes: one tile becomes a whole tile of -inf and another tile, before or behind it."""
_BATCH, _BATCH_INTERPRETED = 257, 5
_OF_BATCHES, _OF_BATCHES_ON_GPU = (100, 700), (37, 1000, 8191)

Places = NDArray[np.int64]

ORDERS: Mapping[str, tuple[str, Callable[[Values, int], Places]]] = {
    "reversed": ("reversed", lambda row, _: np.arange(row.size)[::-1]),
    "descending": ("by descending logits of the first row", lambda row, _: np.argsort(row, kind="stable")[::-1]),
    "rotated": ("rotated by one", lambda row, _: np.roll(np.arange(row.size), 1)),
    "rotated-half": ("rotated by half", lambda row, _: np.roll(np.arange(row.size), row.size // 2)),
    "ascending": ("by ascending logits of the first row", lambda row, _: np.argsort(row, kind="stable")),
    "shuffled": ("shuffled", lambda row, seed: np.random.default_rng(seed).permutation(row.size)),
}
"""Orders of columns with words for each, from the first row and a seed."""
_SIDES: Mapping[str, Callable[[int], Places]] = {
    "leading": lambda columns: np.arange(columns - _PADDED, columns),
    "trailing": lambda _: np.arange(_PADDED),
    "interleaved": lambda columns: np.linspace(0, columns - 1, _PADDED).astype(np.int64),
}
"""Places of padding, with the ordinary columns among all columns."""


@dataclass(frozen=True, slots=True)
class RelatedRows:
    """Two matrices whose exact answers agree in some of their columns: all of them in order, where it does not say which."""

    words: str
    plain: Bits
    changed: Bits
    of_plain: Places | None = None
    of_changed: Places | None = None


class Relation(Probe):
    """Judges changed rows, and records whether answers keep their bits. It makes no trials on an operation that does not keep the relation."""

    def __init__(
        self,
        name: str,
        shows: str,
        trials: Callable[[Setting], Iterable[tuple[str, Any]]],
        change: Callable[[Setting, Any], RelatedRows],
    ) -> None:
        self._name, self._shows, self._trials, self.change = name, shows, trials, change

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns one trial for each change of an input."""
        return [Trial(*each) for each in self._trials(setting)] if self._name in setting.operation.relations else []

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges the changed rows. The plain rows' values are not judged: cases do that."""
        change = self.change(subject.setting, trial.parameters)
        before, after = call_on(subject, change.plain), judged(subject, change.changed)
        bits, fatal = after.bits(subject.setting.fmt), before.fatal or after.fatal
        violations = prefixed(after.violations, change.words)
        if before.output is None or bits is None:
            return Outcome(violations=violations or before.violations, fatal=fatal)
        first, second = (
            output if places is None else output[:, places]
            for output, places in ((before.output, change.of_plain), (bits, change.of_changed))
        )
        same = same_bits(first, second, subject.setting.fmt)
        return Outcome(violations=violations, properties={self._shows: bool(same.all())}, fatal=fatal)


def _shifts(setting: Setting) -> Iterable[tuple[str, float]]:
    shifts = _SHIFTS[setting.dtype][1:3] if setting.quick else _SHIFTS[setting.dtype]
    signed = [sign * shift for shift in shifts for sign in (1.0, -1.0)] if setting.takes(_SHIFTED) else []
    return [(f"{shift:+g}", shift) for shift in signed]


def _shifted(setting: Setting, shift: float) -> RelatedRows:
    """Returns logits between -12 (or 12 spacings) and 0, and the same plus a constant, exactly.

    They are multiples of the format's spacing at the constant. The shifted ones lie between the shift and 0, where the spacing is nowhere
    larger than at the shift.
    """
    fmt = setting.fmt
    spacing = 2.0 ** (int(np.frexp(shift)[1]) - fmt.precision)
    base = spacing * float(np.rint(shift / spacing))
    steps = 12 if spacing >= 1.0 else int(12 / spacing)
    constant = base if base > 0 else base + spacing * steps
    generator = np.random.default_rng([setting.seed, steps])
    drawn = generator.integers(0, steps + 1, (64 if setting.on_gpu else 2, _SHIFTED))
    plain: Values = -spacing * drawn.astype(np.float64)
    return RelatedRows(f"with {constant:+g} added to every logit", encode(plain, fmt), encode(constant + plain, fmt))


def _orders(setting: Setting) -> Iterable[tuple[str, str]]:
    return [(name, name) for name in [*ORDERS][: 2 if setting.quick else None]] if setting.takes(_PERMUTED) else []


def _permuted(setting: Setting, name: str) -> RelatedRows:
    columns = _PERMUTED_ON_GPU if setting.on_gpu and setting.takes(_PERMUTED_ON_GPU) else _PERMUTED
    bits = ordinary_rows(64 if setting.on_gpu else 2, columns, setting.fmt, setting.seed)
    words, order_of = ORDERS[name]
    order = order_of(decode(bits, setting.fmt)[0], setting.seed)
    return RelatedRows(f"columns {words}", bits, bits[:, order], of_plain=order)


def _sides(setting: Setting) -> Iterable[tuple[str, tuple[str, int]]]:
    grown = (_GROWN_ON_GPU if setting.on_gpu else _GROWN)[: 2 if setting.quick else None]
    return [(f"{side}-{n}", (side, n)) for n in grown if setting.takes(n) for side in _SIDES]


def _padded(setting: Setting, asked: tuple[str, int]) -> RelatedRows:
    (side, columns), fmt = asked, setting.fmt
    bits, kept = ordinary_rows(8 if setting.on_gpu else 2, _PADDED, fmt, setting.seed), _SIDES[side](columns)
    padded = np.full((len(bits), columns), encode(np.array([-np.inf]), fmt)[0], dtype=fmt.storage)
    padded[:, kept] = bits
    words = f"{_PADDED} columns with {columns - _PADDED} {side} columns of -inf"
    return RelatedRows(words, bits, padded, of_changed=kept)


class _BatchInvariance(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        chosen = [n for n in (_OF_BATCHES_ON_GPU if setting.on_gpu else _OF_BATCHES) if setting.takes(n)]
        return [Trial(f"columns-{n}", n) for n in chosen[: 1 if setting.quick else None]]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Compares a row alone, first, last and in batches of other sizes."""
        setting, columns = subject.setting, trial.parameters
        rows = _BATCH if setting.on_gpu else _BATCH_INTERPRETED
        bits = ordinary_rows(rows, columns, setting.fmt, setting.seed)
        subject = with_packed_gradients(subject, rows, columns)
        whole = call_on(subject, bits)
        if whole.output is None:
            return stopped(whole)
        half = rows // 2
        parts = {
            "the first row alone of": slice(1),
            "the last row alone of": slice(rows - 1, rows),
            f"the first {half} rows of": slice(half),
            f"the last {rows - half} rows of": slice(half, rows),
            "the second and third row of": slice(1, 3),
        }
        for words, part in parts.items():
            variant = subject.variant
            if variant.named is not None:
                variant = variant.of(variant.named.of_rows(part))
            found = call_on(replace(subject, variant=variant), bits[part])
            if found.output is None:
                return stopped(found)
            message = f"{words} a batch of {rows} rows give other bits than within it, of {columns} columns"
            kind, fmt = FindingKind.ROW_DEPENDENCE, setting.fmt
            change = differing(kind, whole.output[part], found.output, fmt, message, bits[part])
            if change is not None:
                promised = setting.declaration.batch_invariant
                return Outcome(violations=(change,) if promised else (), properties={"batch_invariant": False})
        return Outcome(properties={"batch_invariant": True})


SHIFTS = Relation("shifts", "shift_invariant", _shifts, _shifted)
PERMUTATIONS = Relation("permutations", "permutation_invariant", _orders, _permuted)
APPENDED_MASKS = Relation("appended_masks", "padding_invariant", _sides, _padded)
BATCH_INVARIANCE = _BatchInvariance()
