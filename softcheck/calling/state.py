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

from softcheck.calling import left_running, process_settings, seeds, settings
from softcheck.calling.ownership import is_of_library

_NAMESPACES: tuple[tuple[str, Any], ...] = (
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
    ("torch.nn.functional", torch.nn.functional),
    ("numpy", np),
    ("math", math),
    ("builtins", builtins),
)
_SETTINGS = (*process_settings.SETTINGS, *settings.ALWAYS, *seeds.SETTINGS)
_UNANSWERED = (RuntimeError, OSError, ValueError)
"""Errors of reading or writing a setting: a ruined device, a missing folder, or a limit that can't be raised again."""


class _Lost:
    is_lost = False


_lost = _Lost()


def is_lost() -> bool:
    """True if some call in this process has left a state that could not be put back."""
    return _lost.is_lost


_copies: dict[str, dict[str, Any]] = {}
"""Contents of each namespace at the last look: thousands of names, which seldom change."""


def _copied(name: str, owner: Any) -> dict[str, Any]:
    """The names of a namespace and their values."""
    now = vars(owner)
    if name not in _copies or not _holds(now, _copies[name]):
        _copies[name] = dict(now)
    return _copies[name]


def _holds(now: Mapping[str, Any], before: dict[str, Any]) -> bool:
    """True if a namespace is unchanged. Comparing dictionaries is ten times as fast as comparing each value here.

    Values that are the same object are never compared. If other values can't be compared, such as arrays, the namespace
    has changed.
    """
    try:
        return bool(before == now)
    except Exception:  # noqa: BLE001 - whatever a foreign value raises when it is compared
        return False


class Snapshot:
    """The state at one moment."""

    def __init__(self) -> None:
        on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        watched = (*_SETTINGS, *(settings.ON_CUDA if on_gpu else ()))
        self._settings = [(setting, setting.read()) for setting in watched]
        self._inductor = settings.inductor_is_deterministic()
        self._seed = torch.initial_seed()
        self._random = torch.get_rng_state()
        self._names = [(name, owner, _copied(name, owner)) for name, owner in _NAMESPACES]
        self._hooks = {name: dict(hooks) for name, hooks in _global_hooks()}
        self._modes = _mode_depths()
        self._threads = set(threading.enumerate())
        self._at_work = left_running.at_work()
        self.is_restored = True
        """True if ``restore`` could put everything back."""

    def restore(self) -> list[str]:
        """Puts back all changes since the snapshot, and describes them in words."""
        changed = []
        for setting, before in self._settings:
            try:
                told = setting.told(before, setting.read())
            except _UNANSWERED:
                self.is_restored = False
                continue
            if told:
                changed.append(f"{setting.name} ({told})")
                try:
                    setting.write(before)
                except _UNANSWERED:
                    self.is_restored = False
        # This is not the variant's doing alone: any compilation leaves it at torch's own mode, which a check may have
        # switched on.
        settings.set_inductor(self._inductor)
        if torch.initial_seed() != self._seed:
            torch.set_rng_state(self._random)
            changed.append("the random seed")
        changed += self._restore_names()
        changed += self._restore_hooks()
        changed += self._unwind_modes()
        left = [t.name for t in set(threading.enumerate()) - self._threads if left_running.is_foreign(t)]
        if not left:
            left = [f"one in {name}" for key, name in left_running.at_work().items() if key not in self._at_work]
        if left:
            # The time and the target of its writes are unknown.
            self.is_restored = False
            changed.append(f"running threads ({', '.join(sorted(left))} was left behind)")
        _lost.is_lost |= not self.is_restored
        return changed

    def _restore_names(self) -> list[str]:
        changed = []
        for name, owner, before in self._names:
            now = vars(owner)
            if _holds(now, before):
                continue
            for attribute, value in before.items():
                if now.get(attribute) is not value and not is_of_library(now.get(attribute)):
                    setattr(owner, attribute, value)
                    changed.append(f"{name}.{attribute}")
        return changed

    def _restore_hooks(self) -> list[str]:
        changed = []
        for name, hooks in _global_hooks():
            added = [key for key in hooks if key not in self._hooks[name]]
            for key in added:
                del hooks[key]
            if added:
                changed.append(f"global hooks of modules ({name})")
        return changed

    def _unwind_modes(self) -> list[str]:
        """Leaves the modes that were entered since; one that was left instead can't be entered again."""
        now = _mode_depths()
        if now == self._modes:
            return []
        try:
            for _ in range(now[0] - self._modes[0]):
                torch.overrides._pop_mode()  # type: ignore[no-untyped-call]  # noqa: SLF001 - no public way out
            for _ in range(now[1] - self._modes[1]):
                torch.utils._python_dispatch._pop_mode()  # noqa: SLF001 - no public way out
        except (AssertionError, RuntimeError):
            self.is_restored = False
        self.is_restored = self.is_restored and _mode_depths() == self._modes
        return ["torch function or dispatch modes"]


@contextmanager
def preserved() -> Iterator[Snapshot]:
    """Puts the state back after a block, whoever changed it."""
    before = Snapshot()
    try:
        yield before
    finally:
        before.restore()


def _mode_depths() -> tuple[int, int]:
    return (
        torch._C._len_torch_function_stack(),  # noqa: SLF001 - no public way to ask
        torch._C._len_torch_dispatch_stack(),  # noqa: SLF001 - no public way to ask
    )


def _global_hooks() -> list[tuple[str, dict[int, Any]]]:
    module = torch.nn.modules.module
    return [(name, getattr(module, name)) for name in ("_global_forward_hooks", "_global_forward_pre_hooks")]
