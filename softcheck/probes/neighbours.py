"""NaN, infinities, huge values and padding in a row's neighbours: the row's own result must keep its bits.

NaN and infinities in the output gradient of a backward are tried too. They must show in their own row, wherever they stand: the product of a
probability of 0 and an infinity is NaN, and a loss scaler looks for such a row to leave a step out.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from oracles.formats import decode, encode
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import (
    Repeated,
    call_on,
    ordinary_rows,
    stopped,
    takes_gradients,
    unlike,
    with_gradients,
    with_packed_gradients,
)
from softcheck.probes.outcome import Outcome

_INTERPRETED = ((5, 129), (3, 8))
_BACKWARD = (129, 1100, 8200)
"""Columns of the output gradients that hold NaN and infinities: the first half of a row, which is hidden, is more than a tile."""
_ON_DEVICE = ((2, 129), (3, 513), (5, 1025), (8, 127), (65, 33), (300, 5), (1200, 64), (3000, 257), (2, 32768))
"""Rows of one tile and of several, and more rows than a grid that fills the device has programs."""


class _Neighbours(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        """One trial per shape. Each shape has at least two rows, so that there is a neighbour."""
        asked = _ON_DEVICE[: 3 if setting.quick else None] if setting.on_gpu else _INTERPRETED
        taken = [
            (m, n) for m, n in asked if setting.takes(n) and not (setting.has_row_calls and m > setting.fewer(m, n))
        ]
        found = [Trial(f"{rows}x{columns}", (rows, columns)) for rows, columns in taken]
        widths = _BACKWARD[: 2 if setting.quick else None] if takes_gradients(setting.operation) else ()
        return [*found, *(Trial(f"output-gradients/{n}", n) for n in widths if setting.takes(n))]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Poisons every second row, first the even rows and then the odd ones, and compares the rows between them.

        Under the interpreter each poison takes one half only.
        """
        if isinstance(trial.parameters, int):
            return _with_special_gradients(subject, trial.parameters)
        rows, columns = trial.parameters
        fmt, half = subject.setting.fmt, columns // 2
        bits = ordinary_rows(rows, columns, fmt, subject.setting.seed)
        subject = with_packed_gradients(subject, rows, columns)
        plain = Repeated(partial(call_on, subject, bits))
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
                found = unlike(
                    plain,
                    Repeated(partial(call_on, subject, changed)),
                    FindingKind.ROW_DEPENDENCE,
                    f"rows change when every other row is replaced by rows of {name}",
                    fmt,
                    kept=np.arange(rows)[:, None] % 2 != parity,
                    inputs=bits,
                )
                if found is not None:
                    return found
        return Outcome()


PROBE = _Neighbours()


def _with_special_gradients(subject: Subject, columns: int) -> Outcome:
    """Puts NaN into the second row's output gradient and an infinity into the fourth one's, where y is 0 and elsewhere."""
    fmt, half = subject.setting.fmt, columns // 2
    bits = ordinary_rows(5, columns, fmt, subject.setting.seed)
    bits[1::2, :half] = encode(np.array([-np.inf]), fmt)[0]
    grads = decode(ordinary_rows(5, columns, fmt, subject.setting.seed + 1), fmt)
    plain = Repeated(partial(call_on, with_gradients(subject, grads), bits))
    for where, column in (("where y is 0", half // 2), ("where y is more than 0", columns - 2)):
        special = grads.copy()
        special[1, column], special[3, column] = np.nan, np.inf
        other = Repeated(partial(call_on, with_gradients(subject, special), bits))
        if other.first.output is None:
            return stopped(other.first)
        silent = np.logical_and.reduce(np.isfinite(decode(other.first.output, fmt)), axis=1)
        for row, value in ((1, "NaN"), (3, "inf")):
            if silent[row]:
                message = (
                    f"row {row}: its output gradient is {value} in column {column}, {where}, and the input's gradient is finite throughout; "
                    "expected one that is not, as a loss scaler looks for it"
                )
                return Outcome(violations=(Violation(FindingKind.NAN_MISMATCH, message, row=row, column=column),))
        message = "rows change when the output gradients of the rows between them hold NaN or infinity"
        even = np.arange(len(bits))[:, None] % 2 == 0
        found = unlike(plain, other, FindingKind.ROW_DEPENDENCE, message, fmt, kept=even, inputs=bits)
        if found is not None:
            return found
    return Outcome()
