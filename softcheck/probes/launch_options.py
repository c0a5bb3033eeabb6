"""num_warps from 1 to 16 and splits from 1 to 7 if the variant takes them, and every configuration of its autotuned kernels by itself.

A wrong configuration may hide behind the winner of the tuning, or behind output that another configuration left in
their shared buffer. Here each configuration has poisoned memory to itself.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from oracles.formats import Bits
from softcheck.probes.base import Probe, Setting, Subject, Trial, one_of
from softcheck.probes.helpers import ordinary_rows, parameters_of
from softcheck.probes.judged import judged, told
from softcheck.probes.outcome import NOTHING_TO_TRY, Outcome, Shown
from softcheck.probes.tuning import watching

_WARPS = (1, 2, 4, 8, 16)
_SPLITS = (1, 2, 3, 7)
_OF_SPLITS = ("num_splits", "n_splits", "splits", "split_k", "num_kv_splits", "kv_splits")
"""Names of a parameter that says in how many parts the keys or the columns of a row are taken."""
_AUTOTUNED = "autotuned"
_COLUMNS = (100, 1000)

_LEFT_OUT = ("OutOfResources:", "CompileTimeAssertionFailure:", "PTXASError:")
"""Exceptions for which Triton's tuning leaves a configuration out: it asks for more than this device has, and never
runs."""

_NOTHING = f"{NOTHING_TO_TRY}takes no num_warps and no splits and launches no autotuned kernel"


class _LaunchOptions(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        names = [
            *(f"num-warps-{n}" for n in _WARPS),
            *(f"splits-{n}" for n in _SPLITS),
            *(f"{_AUTOTUNED}-columns-{n}" for n in _COLUMNS if setting.takes(n)),
        ]
        if not setting.takes(_COLUMNS[0]):
            return []
        return [Trial(name, int(name.rpartition("-")[2])) for name in names]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if trial.label.startswith(_AUTOTUNED):
            return _autotuned(subject, trial.parameters)
        function, value = subject.variant.function, trial.parameters
        names = _OF_SPLITS if trial.label.startswith("splits") else ("num_warps",)
        option = next((name for name in names if name in parameters_of(function)), None)
        if option is None:
            return Outcome(skipped=_NOTHING)
        columns = _COLUMNS[-1] if subject.setting.takes(_COLUMNS[-1]) else _COLUMNS[0]
        found = judged(subject, _logits(subject.setting, columns), partial(function, **{option: value}))
        outcome = told(found, found.violations, f"with {option}={value}", option=option)
        return outcome if outcome.skipped else msgspec.structs.replace(outcome, varied=(option,))


PROBE = _LaunchOptions()


def _logits(setting: Setting, columns: int) -> Bits:
    return ordinary_rows(64 if setting.on_gpu else 2, columns, setting.fmt, setting.seed)


def _autotuned(subject: Subject, columns: int) -> Outcome:
    """Tries each configuration that the kernels' pruning leaves at this width.

    Several kernels change theirs together.
    """
    bits = _logits(subject.setting, columns)
    broken: list[Shown] = []
    index, count = 0, 1
    while index < count:
        chosen = _Chosen(index)
        with watching(chosen):
            found = judged(subject, bits)
        if chosen.offered == 0:
            return Outcome(skipped=_NOTHING)
        count = max(count, chosen.offered)
        broken += [Shown(chosen.text, v) for v in found.violations if not v.message.startswith(_LEFT_OUT)]
        if found.fatal:
            break
        index += 1
    violations = []
    for kind in dict.fromkeys(shown.violation.kind for shown in broken):
        alike = [shown for shown in broken if shown.violation.kind is kind]
        words = f"{len(alike)} of {count} configurations at {columns} columns, first ({alike[0].label})"
        violations.append(one_of(alike).violation.told(words))
    return Outcome(violations=tuple(violations), fatal=found.fatal)


class _Chosen:
    """Makes every autotuned kernel run in its configuration of one number, or in its last if it has fewer."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.offered = 0
        """The most configurations that a launch had to choose from; 0 if nothing autotuned was launched."""
        self.text = ""

    def __call__(self, _: Any, configs: list[Any]) -> Any:
        config = configs[min(self.index, len(configs) - 1)]
        self.offered = max(self.offered, len(configs))
        self.text = self.text or str(config)
        return config
