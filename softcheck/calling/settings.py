"""Settings of torch and numpy that decide what other code in the process computes, and how each is put back."""

import ctypes
import operator
import os
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from softcheck.calling import float_environment


def _from_to(before: Any, now: Any) -> str:
    return "" if now == before else f"from {before} to {now}"


@dataclass(frozen=True, slots=True)
class GlobalSetting:
    """One setting: ``write`` takes a value that ``read`` returned, and ``told`` describes how two readings differ.

    ``told`` gives no words for a difference that changes nothing that other code computes; such a difference is left
    alone. ``read`` and ``write`` may raise RuntimeError, OSError or ValueError, after which the process can't be
    trusted any more.
    """

    name: str
    """Empty where ``told`` says it all."""
    read: Callable[[], Any]
    write: Callable[[Any], object]
    told: Callable[[Any, Any], str] = _from_to


Part = tuple[Callable[[], Any], Callable[[Any], object]]
"""Reads and writes a part of a setting."""


def in_parts(
    name: str,
    parts: Mapping[str, Part],
    counts: Callable[[Any, Any], Any] = operator.ne,
    words: str = "{} from {} to {}",
) -> GlobalSetting:
    """The setting of several parts, each changed where ``counts`` is true of two readings, and told in these words."""

    def write(before: dict[str, Any]) -> None:
        for part, (read_part, write_part) in parts.items():
            # Read now, since writing a part may have changed another one.
            if counts(before[part], read_part()):
                write_part(before[part])

    def told(before: dict[str, Any], now: dict[str, Any]) -> str:
        return ", ".join(words.format(p, before[p], now[p]) for p in parts if counts(before[p], now[p]))

    return GlobalSetting(name, lambda: {part: read() for part, (read, _) in parts.items()}, write, told)


def attributes(owner: Any, *paths: str) -> dict[str, Part]:
    """Attributes of an object as parts of a setting, each named by its path, such as ``cudnn.enabled``."""
    found: dict[str, Part] = {}
    for path in paths:
        parent, _, name = path.rpartition(".")
        holder = operator.attrgetter(parent)(owner) if parent else owner
        found[path] = partial(getattr, holder, name), partial(setattr, holder, name)
    return found


def _read_older_precision() -> str | None:
    """Returns what torch's older function tells; None if newer settings that it can't express make it raise."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _write_older_precision(value: str | None) -> None:
    if value is not None:
        torch.set_float32_matmul_precision(value)


def _read_default_device() -> tuple[str, torch.device | None]:
    """Returns the device of the default tensor type, and the device set by ``set_default_device`` or None."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)  # noqa: SLF001 - None can't be asked for
    return str(torch._C._get_default_device()), None if context is None else context.device  # noqa: SLF001 - no other way


def _write_default_device(value: tuple[str, torch.device | None]) -> None:
    of_type, device = value
    torch.set_default_device(device)
    if of_type != torch._C._get_default_device():  # noqa: SLF001 - no public way to ask
        like = torch.empty(0, dtype=torch.get_default_dtype(), device=of_type)
        with warnings.catch_warnings(action="ignore"):
            # Torch advises against it, and has no other way back.
            torch.set_default_tensor_type(like.type())


def _write_inference_mode(_: bool) -> None:  # noqa: FBT001 - a setting's value
    raise RuntimeError("torch's inference mode can be left by whoever entered it, and by no one else")


def _autocast(device: str) -> GlobalSetting:
    parts: dict[str, Part] = {
        "whether it is on": (
            lambda: torch.is_autocast_enabled(device),
            lambda on: torch.set_autocast_enabled(device, on),
        ),
        "its dtype": (
            lambda: torch.get_autocast_dtype(device),
            lambda dtype: torch.set_autocast_dtype(device, dtype),
        ),
        "its cache": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    }
    return in_parts("autocast", parts)


def _read_stance() -> Any:
    """Returns the stance of ``torch.compiler.set_stance``: compile, fall back or refuse; None before its import."""
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)


def _stance_word(stance: Any) -> str:
    return "default" if stance is None else str(stance.stance)


def _knobs() -> dict[str, dict[str, Any]]:
    """Triton's groups of knobs that change how kernels are compiled and run, each with the values that code has set."""
    module = sys.modules.get("triton.knobs")
    groups = ("compilation", "language", "runtime", "nvidia", "amd")
    return {name: vars(getattr(module, name)) for name in groups if hasattr(module, name)}


def _write_knobs(before: dict[str, dict[str, Any]]) -> None:
    for group, values in _knobs().items():
        values.clear()
        values.update(before.get(group, {}))


def _modes() -> tuple[int, int]:
    return (
        torch._C._len_torch_function_stack(),  # noqa: SLF001 - no public way to ask
        torch._C._len_torch_dispatch_stack(),  # noqa: SLF001 - no public way to ask
    )


def _unwind_modes(before: tuple[int, int]) -> None:
    """Leaves the modes that were entered since; one that was left instead can't be entered again."""
    now = _modes()
    try:
        for _ in range(now[0] - before[0]):
            torch.overrides._pop_mode()  # type: ignore[no-untyped-call]  # noqa: SLF001 - no public way out
        for _ in range(now[1] - before[1]):
            torch.utils._python_dispatch._pop_mode()  # noqa: SLF001 - no public way out
    except AssertionError as error:
        raise RuntimeError(str(error)) from error
    if _modes() != before:
        raise RuntimeError("a mode was left that can't be entered again")


_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks")


def _write_hooks(hooks: dict[int, Any], before: dict[int, Any]) -> None:
    for key in [key for key in hooks if key not in before]:
        del hooks[key]


def _hooks(name: str) -> Part:
    hooks: dict[int, Any] = getattr(torch.nn.modules.module, name)
    return lambda: dict(hooks), partial(_write_hooks, hooks)


_floats = float_environment.access()
_cuda: Any = torch.backends.cuda

ALWAYS = (
    GlobalSetting(
        "rounding or the flushing of subnormals",
        _floats.read,
        _floats.write,
        lambda before, now: _from_to(_floats.describe(before), _floats.describe(now)),
    ),
    GlobalSetting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    GlobalSetting("the default device", _read_default_device, _write_default_device),
    GlobalSetting("deterministic mode", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    in_parts("the filling of uninitialised memory", attributes(torch.utils.deterministic, "fill_uninitialized_memory")),
    GlobalSetting("inference mode", torch.is_inference_mode_enabled, _write_inference_mode),
    GlobalSetting("gradient mode", torch.is_grad_enabled, torch.set_grad_enabled),
    GlobalSetting(
        "anomaly detection",
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda value: torch.autograd.set_detect_anomaly(*value),
    ),
    GlobalSetting("the number of threads", torch.get_num_threads, torch.set_num_threads),
    # Torch raises where its pool runs already; then the number can't be had back.
    GlobalSetting(
        "the number of threads between operations", torch.get_num_interop_threads, torch.set_num_interop_threads
    ),
    in_parts(
        "matmul precision",
        {
            "of float32": (_read_older_precision, _write_older_precision),
            **attributes(
                torch.backends, "fp32_precision", "cuda.matmul.fp32_precision", "mkldnn.matmul.fp32_precision"
            ),
        },
    ),
    in_parts(
        "backend flags",
        attributes(
            torch.backends,
            *(f"cudnn.{flag}" for flag in ("enabled", "benchmark", "deterministic")),
            *(f"mkldnn.{flag}" for flag in ("enabled", "deterministic")),
            *(f"cuda.matmul.allow_{kind}_reduced_precision_reduction" for kind in ("fp16", "bf16")),
            "cuda.matmul.allow_fp16_accumulation",
        ),
    ),
    in_parts(
        "attention kernels",
        {
            kind: (getattr(_cuda, f"{kind}_sdp_enabled"), getattr(_cuda, f"enable_{kind}_sdp"))
            for kind in ("flash", "mem_efficient", "math", "cudnn")
        },
    ),
    _autocast("cpu"),
    GlobalSetting(
        "the stance of torch.compile",
        _read_stance,
        lambda before: torch.compiler.set_stance("default" if before is None else before.stance),
        lambda before, now: _from_to(_stance_word(before), _stance_word(now)),
    ),
    # A group without values is as one that is not imported yet.
    GlobalSetting("Triton's knobs", lambda: {group: {**own} for group, own in _knobs().items() if own}, _write_knobs),
    GlobalSetting("numpy's error handling", np.geterr, lambda value: np.seterr(**value)),
    GlobalSetting("numpy's buffer size", np.getbufsize, np.setbufsize),
    in_parts(
        "global hooks of modules", {name: _hooks(name) for name in _HOOKS}, lambda a, b: not b.keys() <= a.keys(), "{}"
    ),
    GlobalSetting("torch function or dispatch modes", _modes, _unwind_modes),
)

ON_CUDA = (
    GlobalSetting("the current device", torch.cuda.current_device, torch.cuda.set_device),
    GlobalSetting("the current stream", torch.cuda.current_stream, torch.cuda.set_stream),
    _autocast("cuda"),
)
"""Settings to be read once torch has initialised CUDA."""

_INDUCTOR = "torch._inductor.config"


def inductor_is_deterministic() -> bool:
    """True if Inductor compiles for deterministic mode; before its import, the value that it would begin with."""
    config = sys.modules.get(_INDUCTOR)
    if config is None:
        return os.environ.get("TORCHINDUCTOR_DETERMINISTIC") == "1"
    return bool(getattr(config, "deterministic", False))


def set_inductor(deterministic: bool) -> None:  # noqa: FBT001 - a setting's value
    """Has Inductor compile for deterministic mode, or not; changes nothing where it is not imported yet."""
    config = sys.modules.get(_INDUCTOR)
    if config is not None and hasattr(config, "deterministic"):
        config.deterministic = deterministic  # type: ignore[attr-defined]


# Both generators are Mersenne twisters of 624 words (Matsumoto & Nishimura, ACM TOMACS 8, 1998). Drawing uses up the words and then
# replaces all of them by the next 624. A state that doesn't follow from the state before was therefore set, not reached.
_global: Any = np.random
"""Functions on the global generator, of which numpy's types don't know all."""
_WORDS = 624
_TURNS = 4096
"""Replacements of all words that are taken for drawing: 2.5 million draws in one call."""


def _new_seed(before: np.ndarray, now: np.ndarray) -> str:
    """Words for a state to which drawing from another does not lead, both uint32 of shape [624]; empty if it does."""
    if np.array_equal(before, now):
        return ""
    generator = np.random.MT19937()
    stepped = np.random.Generator(generator)
    generator.state = {"bit_generator": "MT19937", "state": {"key": before, "pos": _WORDS}}
    wanted = now.tobytes()
    for _ in range(_TURNS):
        stepped.bytes(4 * _WORDS)
        if ctypes.string_at(generator.ctypes.state_address, 4 * _WORDS) == wanted:
            return ""
    return "another one was set"


def _tell_python(before: Any, now: Any) -> str:
    first, second = (np.array(state[1][:_WORDS], dtype=np.uint32) for state in (before, now))
    return "" if before == now else _new_seed(first, second)


def _read_numpy() -> tuple[Any, bytes]:
    """The generator, and the words of a Mersenne twister with the place among them, as they lie in memory."""
    generator = _global.get_bit_generator()
    # The public state is a copy within dictionaries, which takes a hundred times as long.
    raw = (
        ctypes.string_at(generator.ctypes.state_address, 4 * _WORDS + 4)
        if isinstance(generator, np.random.MT19937)
        else b""
    )
    return generator, raw


def _words(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, dtype=np.uint32)[:_WORDS]


def _tell_numpy(before: tuple[Any, bytes], now: tuple[Any, bytes]) -> str:
    if before[0] is not now[0]:
        return "another generator was set"
    return "" if before[1] == now[1] else _new_seed(_words(before[1]), _words(now[1]))


def _write_numpy(before: tuple[Any, bytes]) -> None:
    generator, raw = before
    if _global.get_bit_generator() is not generator:
        _global.set_bit_generator(generator)
    if raw:
        place = int(np.frombuffer(raw, dtype=np.int32)[_WORDS])
        _global.set_state(("MT19937", _words(raw), place))


SEEDS = (
    GlobalSetting("the seed of Python's random numbers", random.getstate, random.setstate, _tell_python),
    GlobalSetting("the seed of numpy's random numbers", _read_numpy, _write_numpy, _tell_numpy),
)
