"""A constant added to every logit, exactly: softmax(x + c) is softmax(x), so the bounds hold for any c.

The logits are multiples of the format's spacing at c, so that adding c rounds nothing.
"""

from collections.abc import Sequence

import numpy as np

from oracles.formats import Bits, Values, encode
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.outcome import Outcome
from softcheck.probes.relations import ChangeProbe, compared

PROPERTY = "shift_invariant"

_SHIFTS = {
    "float16": (128.0, 1e3, 1e4, 6e4),
    "bfloat16": (16.0, 128.0, 1e4, 1e30),
    "float32": (1e4, 8e6, 1e8, 1e14),
    "float64": (1e4, 4e15, 1e17, 1e30),
}
"""Constants at which the spacing is up to about 1/8, 1, 8, and more than any spread that leaves two probabilities above
0."""

_COLUMNS = 130


class _Shifts(ChangeProbe):
    def changes(self, setting: Setting) -> Sequence[Trial]:
        if not setting.takes(_COLUMNS):
            return []
        shifts = _SHIFTS[setting.dtype][1:3] if setting.quick else _SHIFTS[setting.dtype]
        return [Trial(f"{sign}{shift:g}", float(f"{sign}{shift}")) for shift in shifts for sign in ("+", "-")]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        plain, shifted, constant = _inputs(subject.setting, trial.parameters)
        words = f"with {constant:+g} added to every logit"
        return compared(subject, plain, shifted, words=words, name=PROPERTY)


PROBE = _Shifts("shifts")


def _inputs(setting: Setting, shift: float) -> tuple[Bits, Bits, float]:
    """Returns lattice logits between -12 (or 12 spacings) and 0, the same plus a constant, and the constant.

    The shifted logits lie between the shift and 0, where the spacing is nowhere larger than at the shift.
    """
    fmt = setting.fmt
    spacing = 2.0 ** (int(np.frexp(shift)[1]) - fmt.precision)
    base = spacing * float(np.rint(shift / spacing))
    steps = 12 if spacing >= 1.0 else int(12 / spacing)
    constant = base if base > 0 else base + spacing * steps
    generator = np.random.default_rng([setting.seed, steps])
    drawn = generator.integers(0, steps + 1, (64 if setting.on_gpu else 2, _COLUMNS))
    plain: Values = -spacing * drawn.astype(np.float64)
    return encode(plain, fmt), encode(constant + plain, fmt), constant
