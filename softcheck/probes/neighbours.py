"""NaN, infinities, huge values and padding in a row's neighbours: the row's own result must keep its bits."""

from collections.abc import Sequence

import numpy as np

from oracles.formats import Bits, encode
from softcheck.calling.call import Called
from softcheck.contract import FindingKind
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe, call_on, differing, ordinary_rows, same_bits, stopped
from softcheck.probes.outcome import Outcome

_INTERPRETED = ((5, 129), (3, 8))
_ON_DEVICE = ((2, 129), (3, 513), (5, 1025), (8, 127), (65, 33), (300, 5), (1200, 64), (3000, 257), (2, 32768))
"""Rows of one tile and of several, and more rows than a grid that fills the device has programs."""


class Neighbours(GroupedProbe):
    """Checks that a row's result depends on that row alone."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """One trial per shape. Each shape has at least two rows, so that there is a neighbour."""
        asked = _ON_DEVICE[: 3 if setting.quick else None] if setting.on_gpu else _INTERPRETED
        return [Trial(f"{rows}x{columns}", (rows, columns)) for rows, columns in asked if setting.takes(columns)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Poisons every second row, first the even rows and then the odd ones, and compares the rows between them.

        Under the interpreter each poison takes one half only.
        """
        rows, columns = trial.parameters
        fmt = subject.setting.fmt
        bits = ordinary_rows(rows, columns, fmt, subject.setting.seed)
        first = call_on(subject, bits)
        if first.output is None:
            return stopped(first)
        half = columns // 2
        poisons = {
            "NaN": (float("nan"), slice(None)),
            "+inf": (float("inf"), slice(None)),
            "the largest finite value": (fmt.max, slice(None)),
            "-inf": (-float("inf"), slice(None)),
            "what is padded on the right by -inf": (-float("inf"), slice(half, None)),
            "what is padded on the left by -inf": (-float("inf"), slice(half)),
        }
        for number, (name, (poison, where)) in enumerate(poisons.items()):
            for parity in (0, 1) if subject.setting.on_gpu else ((number // 2 + number) % 2,):
                changed = bits.copy()
                changed[parity::2, where] = encode(np.array([poison]), fmt)[0]
                other = call_on(subject, changed)
                if other.output is None:
                    return stopped(other)
                found = _dependence(subject, bits, changed, (first.output, other.output), f"rows of {name}", 1 - parity)
                if found is not None:
                    return found
        return Outcome()


def _dependence(
    subject: Subject, bits: Bits, changed: Bits, outputs: tuple[Bits, Bits], what: str, kept: int
) -> Outcome | None:
    """Returns a violation if the kept rows differ and both calls repeat.

    A kernel that varies by itself is not accused.
    """
    fmt = subject.setting.fmt
    # The other rows may differ, so the expectation is taken from the second output there.
    expected = outputs[1].copy()
    expected[kept::2] = outputs[0][kept::2]
    message = f"rows change when every other row is replaced by {what}"
    found = differing(FindingKind.ROW_DEPENDENCE, expected, outputs[1], fmt, message, bits)
    if found is None:
        return None
    for inputs, output in zip((bits, changed), outputs, strict=True):
        again: Called = call_on(subject, inputs)
        if again.output is None or not same_bits(output, again.output, fmt)[kept::2].all():
            return None
    return Outcome(violations=(found,))


PROBE = Neighbours()
