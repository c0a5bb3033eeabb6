"""Functions mapped by ``torch.vmap``, and modules that were copied, saved and loaded, cast, and set to training.

A function is mapped where its source writes about ``vmap``: rules by hand can be wrong, and torch composes its own. A module is
changed where the variant is one; it is called in evaluation otherwise. What raises is refused, and no finding.
"""

import copy
import inspect
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, decode, encode
from softcheck.calling.call import TORCH_DTYPES
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, ordinary_rows, repeats
from softcheck.probes.judged import judged, told
from softcheck.probes.outcome import NOTHING_TO_TRY, Outcome
from softcheck.variants.adapt import Adapted
from softcheck.variants.source import source_of

_LEADING = (3, 4)
"""Sizes of the mapped dimension and of the rows beside it."""
_COLUMNS = 33
_WIDTHS = (33, 129, 1100, 4100)
"""Columns on which a changed module is called, in one block and in several tiles."""
_SPREADS = (1.0, 10.0)
_FAR = 100.0
"""Height of a row's last column above the others, beyond the range of an exponential that is not shifted."""


def _copied(module: torch.nn.Module, _dtype: torch.dtype) -> torch.nn.Module:
    return copy.deepcopy(module)


def _saved(module: torch.nn.Module, _dtype: torch.dtype) -> torch.nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded: torch.nn.Module = torch.load(file, weights_only=False)
    return loaded


def _cast(module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    return copy.deepcopy(module).to(dtype)


def _in_training(module: torch.nn.Module, _dtype: torch.dtype) -> torch.nn.Module:
    return copy.deepcopy(module).train()


_CHANGES: dict[str, tuple[Callable[[torch.nn.Module, torch.dtype], torch.nn.Module], str]] = {
    "copied": (_copied, "as copy.deepcopy gives it"),
    "saved": (_saved, "saved by torch.save and loaded"),
    "cast": (_cast, "cast by to(x.dtype)"),
    "training": (_in_training, "in training, after train()"),
}


class _TorchTransforms(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        mapped = [0, 1, 2] if setting.has_rows_alone and setting.takes(_COLUMNS) else []
        return [
            *(Trial(f"vmap/in_dims-{place}", place) for place in mapped),
            *(Trial(f"module/{name}", name) for name in _CHANGES),
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        function = subject.variant.function
        if not isinstance(function, Adapted):
            return Outcome(skipped=f"{NOTHING_TO_TRY}is called on the matrix itself")
        if isinstance(trial.parameters, int):
            return _mapped(subject, function, trial.parameters)
        return _changed(subject, function, trial.parameters)


PROBE = _TorchTransforms()


def _mapped(subject: Subject, function: Adapted, place: int) -> Outcome:
    if not source_of(function).mentions("vmap"):
        return Outcome(skipped=f"{NOTHING_TO_TRY}has no rule of its own for torch.vmap")

    def by_samples(x: torch.Tensor) -> Any:
        given = x.reshape(*_LEADING, x.shape[1]).movedim(0, place).contiguous()
        answer = torch.vmap(function, in_dims=place)(given)
        return answer.reshape(len(x), -1) if isinstance(answer, torch.Tensor) else answer

    setting = subject.setting
    bits = ordinary_rows(math.prod(_LEADING), _COLUMNS, setting.fmt, setting.seed)
    return _judged(subject, bits, by_samples, f"mapped by torch.vmap with in_dims={place}")


def _changed(subject: Subject, function: Adapted, name: str) -> Outcome:
    module = inspect.unwrap(function)
    if not isinstance(module, torch.nn.Module):
        return Outcome(skipped=f"{NOTHING_TO_TRY}is no module")
    setting = subject.setting
    change, words = _CHANGES[name]
    if change is _cast and _rounds_parameters(module, TORCH_DTYPES[setting.dtype]):
        return Outcome(skipped=f"the module {words} has other parameters than it had, since they are rounded")
    try:
        other = function.on(change(module, TORCH_DTYPES[setting.dtype]))
    except Exception as error:  # noqa: BLE001 - a module need not be copied, and what can't be is no finding
        return Outcome(skipped=f"the module can't be had {words}: {type(error).__name__}: {error}")
    for columns in filter(setting.takes, _WIDTHS):
        bits = _telling(setting, columns)
        found = _judged(subject, bits, other, f"the module {words}")
        if found.violations and not found.fatal and not _repeats(subject, bits, other):
            # As dropout, and noise that is added in training, have it.
            return Outcome(skipped=f"the module {words} gives another answer each time")
        if found.violations or found.fatal or found.skipped is not None:
            return found
    return Outcome()


def _rounds_parameters(module: torch.nn.Module, dtype: torch.dtype) -> bool:
    """True if a cast changes numbers that a module learns, whose answers are others then; a constant in a buffer is no such number."""
    return any(
        each.is_floating_point() and not torch.equal(each.to(dtype).to(each.dtype), each)
        for each in module.parameters()
    )


def _repeats(subject: Subject, bits: Bits, function: Adapted) -> bool:
    changed = replace(subject, variant=replace(subject.variant, function=function))

    def again() -> Bits | None:
        return call_on(changed, bits).output

    return repeats(again(), again, subject.setting.fmt)


def _telling(setting: Setting, columns: int) -> Bits:
    """Ordinary rows, rows of a wider range, and one whose last column is far above the others."""
    rows = decode(ordinary_rows(2, columns, setting.fmt, setting.seed), setting.fmt)
    peak = rows[:1].copy()
    peak[0, -1] = _FAR
    return encode(np.concatenate([*(spread * rows for spread in _SPREADS), peak]), setting.fmt)


def _judged(subject: Subject, bits: Bits, function: Callable[[torch.Tensor], Any], words: str) -> Outcome:
    """Judges the changed function, and keeps what is wrong of it alone."""
    found = judged(subject, bits, function)
    return told(found, found.beyond(judged(subject, bits)), words)
