"""Global state of the process that a call must leave as it was: compared after each call, and put back.

Other variants run in the same process afterwards. What torch, Triton or the standard library change by themselves, such as
names that a lazy import adds, is no variant's doing and is left alone.
"""

import builtins
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from softcheck.calling import ownership, process_settings, settings
from softcheck.calling.ownership import is_of_library
from softcheck.calling.settings import GlobalSetting

_NAMESPACES: dict[str, Any] = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.nn.functional": torch.nn.functional,
    "numpy": np,
    "math": math,
    "builtins": builtins,
}
_UNANSWERED = (RuntimeError, OSError, ValueError)
"""Errors of reading or writing a setting: a ruined device, a missing folder, or a limit that can't be raised again."""


_copies: dict[str, dict[str, Any]] = {}
"""Contents of each namespace at the last look: thousands of names, which seldom change."""


def _read_names() -> dict[str, dict[str, Any]]:
    for name, owner in _NAMESPACES.items():
        if name not in _copies or not _holds(vars(owner), _copies[name]):
            _copies[name] = dict(vars(owner))
    return dict(_copies)


def _holds(now: Mapping[str, Any], before: dict[str, Any]) -> bool:
    """True if a namespace is unchanged: dictionaries compare ten times as fast as values here. What can't be compared has changed."""
    try:
        return bool(before == now)
    except Exception:  # noqa: BLE001 - whatever a foreign value raises when it is compared
        return False


def _replaced(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """Names, each with its namespace, that no longer hold what they held, unless a library has replaced them."""
    return [
        (name, attribute)
        for name, values in before.items()
        if now[name] is not values
        for attribute, value in values.items()
        if now[name].get(attribute) is not value and not is_of_library(now[name].get(attribute))
    ]


def _write_names(before: dict[str, dict[str, Any]]) -> None:
    for name, attribute in _replaced(before, _read_names()):
        setattr(_NAMESPACES[name], attribute, before[name][attribute])


def _read_threads() -> tuple[set[threading.Thread], dict[int, str]]:
    return set(threading.enumerate()), ownership.at_work()


def _tell_threads(before: tuple[set[threading.Thread], dict[int, str]], now: Any) -> str:
    left = [thread.name for thread in now[0] - before[0] if ownership.is_foreign(thread)]
    left = left or [f"one in {name}" for key, name in now[1].items() if key not in before[1]]
    return f"{', '.join(sorted(left))} was left behind" if left else ""


def _end_threads(_: Any) -> None:
    raise RuntimeError("the time and the target of a thread's writes are unknown")


_SETTINGS = (
    *process_settings.SETTINGS,
    *settings.ALWAYS,
    *settings.SEEDS,
    GlobalSetting(
        "",
        lambda: (torch.initial_seed(), torch.get_rng_state()),
        lambda before: torch.set_rng_state(before[1]),
        lambda before, now: "" if before[0] == now[0] else "the random seed",
    ),
    GlobalSetting("", _read_names, _write_names, lambda before, now: ", ".join(map(".".join, _replaced(before, now)))),
    # Last, since tasks in the queues of thread pools get a moment to begin.
    GlobalSetting("running threads", _read_threads, _end_threads, _tell_threads),
)


def is_lost() -> bool:
    """True if some call in this process has left a state that could not be put back."""
    return Snapshot.is_any_lost


class Snapshot:
    """The state at one moment."""

    is_any_lost = False

    def __init__(self) -> None:
        on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        watched = (*_SETTINGS, *(settings.ON_CUDA if on_gpu else ()))
        self._settings = [(setting, setting.read()) for setting in watched]
        self._inductor = settings.inductor_is_deterministic()
        self.is_restored = True
        """True if ``restore`` could put everything back."""

    def restore(self) -> list[str]:
        """Puts back all changes since the snapshot, and describes them in words."""
        changed = []
        for setting, before in self._settings:
            try:
                if told := setting.told(before, setting.read()):
                    changed.append(f"{setting.name} ({told})" if setting.name else told)
                    setting.write(before)
            except _UNANSWERED:
                self.is_restored = False
        # This is not the variant's doing alone: any compilation leaves it at torch's own mode, which a check may have
        # switched on.
        settings.set_inductor(self._inductor)
        Snapshot.is_any_lost |= not self.is_restored
        return changed


@contextmanager
def preserved() -> Iterator[Snapshot]:
    """Puts the state back after a block, whoever changed it."""
    before = Snapshot()
    try:
        yield before
    finally:
        before.restore()
