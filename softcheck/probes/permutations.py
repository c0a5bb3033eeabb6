"""Columns in another order: every order must keep the bounds, wherever the largest logit stands."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracles.formats import decode
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.outcome import Outcome
from softcheck.probes.relations import ChangeProbe, compared

PROPERTY = "permutation_invariant"

_COLUMNS = 700
_COLUMNS_ON_GPU = 5000

_ORDERS = {
    "reversed": "reversed",
    "rotated": "rotated by one",
    "rotated-half": "rotated by half",
    "ascending": "by ascending logits of the first row",
    "descending": "by descending logits of the first row",
    "shuffled": "shuffled",
}


class _Permutations(ChangeProbe):
    def changes(self, setting: Setting) -> Sequence[Trial]:
        names = ("reversed", "descending") if setting.quick else tuple(_ORDERS)
        return [Trial(name, name) for name in names] if setting.takes(_columns(setting)) else []

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        setting = subject.setting
        fmt = setting.fmt
        bits = ordinary_rows(64 if setting.on_gpu else 2, _columns(setting), fmt, setting.seed)
        order = _order(trial.parameters, decode(bits, fmt)[0], setting.seed)
        words = f"columns {_ORDERS[trial.parameters]}"
        return compared(subject, bits, bits[:, order], words=words, name=PROPERTY, columns=order)


PROBE = _Permutations("permutations")


def _columns(setting: Setting) -> int:
    return _COLUMNS_ON_GPU if setting.on_gpu and setting.takes(_COLUMNS_ON_GPU) else _COLUMNS


def _order(name: str, logits: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    columns = len(logits)
    ascending = np.argsort(logits, kind="stable")
    orders = {
        "reversed": np.arange(columns)[::-1],
        "rotated": np.roll(np.arange(columns), 1),
        "rotated-half": np.roll(np.arange(columns), columns // 2),
        "ascending": ascending,
        "descending": ascending[::-1],
        "shuffled": np.random.default_rng(seed).permutation(columns),
    }
    return orders[name]
