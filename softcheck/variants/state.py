"""Global state of the process that a call must leave as it was: compared after each call, and put back.

Other variants run in the same process afterwards. What torch, Triton or the standard library change by themselves, such as
names that a lazy import adds, is no variant's doing and is left alone.
"""

import functools
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

_ENVIRONMENT = ("CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES", "TRITON_DEFAULT_FP_FUSION", "TRITON_INTERPRET")
"""Variables that change how kernels of others run."""

_NAMESPACES: tuple[tuple[str, Any], ...] = (
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
    ("torch.nn.functional", torch.nn.functional),
)
_INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib"))
_INDUCTOR = "torch._inductor.config"
_LIBRARIES = frozenset({"torch", "triton", "concurrent", "multiprocessing", "tqdm"})
"""Packages that patch torch's names and keep threads for purposes of their own."""


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


def _inductor_is_deterministic() -> bool:
    """Whether Inductor compiles for deterministic mode; what it would begin with where it is not imported yet."""
    config = sys.modules.get(_INDUCTOR)
    if config is None:
        return os.environ.get("TORCHINDUCTOR_DETERMINISTIC") == "1"
    return bool(getattr(config, "deterministic", False))


def _set_inductor(deterministic: bool) -> None:  # noqa: FBT001 - a setting's value
    config = sys.modules.get(_INDUCTOR)
    if config is not None and hasattr(config, "deterministic"):
        config.deterministic = deterministic  # type: ignore[attr-defined]


def _write_environment(value: dict[str, str | None]) -> None:
    for name, text in value.items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text


_PRECISIONS: tuple[Any, ...] = (torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
"""Each has an ``fp32_precision``."""


def _read_precision() -> tuple[str | None, ...]:
    """What torch's older function says, None where settings that it can't express make it raise, and the newer settings."""
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:
        older = None
    return older, *(str(owner.fp32_precision) for owner in _PRECISIONS)


def _write_precision(value: tuple[str | None, ...]) -> None:
    older, *newer = value
    if older is not None:
        torch.set_float32_matmul_precision(older)
    for owner, precision in zip(_PRECISIONS, newer, strict=True):
        if owner.fp32_precision != precision:
            owner.fp32_precision = precision


_SETTINGS = (
    _Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    _Setting("deterministic mode", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    _Setting("gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
    _Setting("the number of threads", torch.get_num_threads, torch.set_num_threads),
    _Setting("matmul precision", _read_precision, _write_precision),
    _Setting("autocast", lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    _Setting("numpy's error handling", np.geterr, lambda value: np.seterr(**value)),
    _Setting("the working folder", os.getcwd, os.chdir),
    _Setting("environment variables", lambda: {n: os.environ.get(n) for n in _ENVIRONMENT}, _write_environment),
)

_CUDA_SETTINGS = (
    _Setting("the current device", torch.cuda.current_device, torch.cuda.set_device),
    _Setting("the current stream", torch.cuda.current_stream, torch.cuda.set_stream),
    _Setting("autocast", lambda: torch.is_autocast_enabled("cuda"), lambda on: torch.set_autocast_enabled("cuda", on)),
)


class _Lost:
    is_lost = False


_lost = _Lost()


def is_lost() -> bool:
    """Whether some call in this process has left it in a state that could not be put back."""
    return _lost.is_lost


class Snapshot:
    """The state at one moment."""

    def __init__(self) -> None:
        on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        settings = (*_SETTINGS, *(_CUDA_SETTINGS if on_gpu else ()))
        self._settings = [(setting, setting.read()) for setting in settings]
        self._inductor = _inductor_is_deterministic()
        self._seed = torch.initial_seed()
        self._random = torch.get_rng_state()
        self._names = [(name, owner, dict(vars(owner))) for name, owner in _NAMESPACES]
        self._hooks = {name: dict(hooks) for name, hooks in _global_hooks()}
        self._modes = _mode_depths()
        self._threads = set(threading.enumerate())
        self.is_restored = True
        """Whether ``restore`` could put everything back."""

    def restore(self) -> list[str]:
        """Puts back what has changed since, and says what that was, in words."""
        changed = []
        for setting, before in self._settings:
            try:
                now = setting.read()
                if now != before:
                    setting.write(before)
            except RuntimeError:
                # A device that a kernel ruined answers nothing more.
                self.is_restored = False
                continue
            if now != before:
                changed.append(f"{setting.name} (from {before} to {now})")
        # Not the variant's doing alone: whatever compiles leaves it as torch's own mode is, which may be on for a check's sake.
        _set_inductor(self._inductor)
        if torch.initial_seed() != self._seed:
            torch.set_rng_state(self._random)
            changed.append("the random seed")
        changed += self._restore_names()
        changed += self._restore_hooks()
        changed += self._unwind_modes()
        left = [thread for thread in threading.enumerate() if thread not in self._threads and _is_foreign(thread)]
        if left:
            # What it writes to, and when, nobody knows.
            self.is_restored = False
            changed.append(f"running threads ({', '.join(thread.name for thread in left)} was left behind)")
        _lost.is_lost |= not self.is_restored
        return changed

    def _restore_names(self) -> list[str]:
        changed = []
        for name, owner, before in self._names:
            now = vars(owner)
            if now == before:
                continue
            for attribute, value in before.items():
                if now.get(attribute) is not value and not _is_of_library(now.get(attribute)):
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


def _is_of_library(value: object) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] in _LIBRARIES


def _is_foreign(thread: threading.Thread) -> bool:
    """Whether a thread runs code of the variant's, not of an installed library, which may keep some of its own."""
    runs = getattr(thread, "function", None) or getattr(thread, "_target", None) or type(thread)
    while isinstance(runs, functools.partial):
        runs = runs.func
    return thread.is_alive() and not _is_of_library(runs) and not _is_installed(runs)


def _is_installed(value: object) -> bool:
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = Path(getattr(module, "__file__", None) or "nowhere").resolve()
    return any(file.is_relative_to(folder) for folder in _INSTALLED)
