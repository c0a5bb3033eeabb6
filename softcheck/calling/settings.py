"""Settings of torch and numpy that decide what other code in the process computes, and how each is put back."""

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
    read: Callable[[], Any]
    write: Callable[[Any], object]
    told: Callable[[Any, Any], str] = _from_to


def _of_attributes(name: str, *attributes: tuple[Any, str]) -> GlobalSetting:
    """The setting that consists of attributes, each given by its owner and its name."""

    def read() -> tuple[Any, ...]:
        return tuple(getattr(owner, attribute) for owner, attribute in attributes)

    def write(values: tuple[Any, ...]) -> None:
        for (owner, attribute), value in zip(attributes, values, strict=True):
            if getattr(owner, attribute) != value:
                setattr(owner, attribute, value)

    return GlobalSetting(name, read, write)


_cuda: Any = torch.backends.cuda
_backends: Any = torch.backends
_NEWER_PRECISIONS = _of_attributes(
    "matmul precision", *((owner, "fp32_precision") for owner in (_backends, _cuda.matmul, _backends.mkldnn.matmul))
)


def _read_precision() -> tuple[Any, ...]:
    """Reads torch's older function and the newer settings.

    The first value is None if newer settings that the older function can't express make it raise.
    """
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:
        older = None
    return older, *_NEWER_PRECISIONS.read()


def _write_precision(value: tuple[Any, ...]) -> None:
    older, *newer = value
    if older is not None:
        torch.set_float32_matmul_precision(older)
    _NEWER_PRECISIONS.write(newer)


_ATTENTION = (
    (_cuda.flash_sdp_enabled, _cuda.enable_flash_sdp),
    (_cuda.mem_efficient_sdp_enabled, _cuda.enable_mem_efficient_sdp),
    (_cuda.math_sdp_enabled, _cuda.enable_math_sdp),
    (_cuda.cudnn_sdp_enabled, _cuda.enable_cudnn_sdp),
)
"""Kernels that torch may use for attention."""


def _write_attention(values: tuple[bool, ...]) -> None:
    for (_, write), value in zip(_ATTENTION, values, strict=True):
        write(value)


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


def _read_autocast(device: str) -> tuple[bool, torch.dtype, bool]:
    return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()


def _write_autocast(device: str, value: tuple[bool, torch.dtype, bool]) -> None:
    on, dtype, caches = value
    torch.set_autocast_enabled(device, on)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(caches)


_DYNAMO = "torch._dynamo.eval_frame"


def _read_stance() -> Any:
    """Returns the stance of ``torch.compiler.set_stance``: compile, fall back or refuse.

    None before torch.compile's import.
    """
    return getattr(sys.modules.get(_DYNAMO), "_stance", None)


def _tell_stance(before: Any, now: Any) -> str:
    return _from_to(*("default" if stance is None else str(stance.stance) for stance in (before, now)))


def _write_stance(before: Any) -> None:
    torch.compiler.set_stance("default" if before is None else before.stance)


_KNOBS = ("compilation", "language", "runtime", "nvidia", "amd")
"""Triton's groups of knobs that change how kernels are compiled and run. Each reading holds the values that code has
set, not the environment's."""


def _knobs() -> list[tuple[str, dict[str, Any]]]:
    module = sys.modules.get("triton.knobs")
    return [(name, vars(getattr(module, name))) for name in _KNOBS if hasattr(module, name)]


def _read_knobs() -> dict[str, Any]:
    return {f"{group}.{name}": value for group, values in _knobs() for name, value in values.items()}


def _write_knobs(before: dict[str, Any]) -> None:
    for group, values in _knobs():
        for name in list(values):
            if f"{group}.{name}" not in before:
                del values[name]
        prefix = f"{group}."
        values.update({name.removeprefix(prefix): v for name, v in before.items() if name.startswith(prefix)})


_floats = float_environment.access()

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
    GlobalSetting(
        "the filling of uninitialised memory",
        lambda: torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        lambda on: setattr(torch.utils.deterministic, "fill_uninitialized_memory", on),
    ),
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
    GlobalSetting("matmul precision", _read_precision, _write_precision),
    _of_attributes(
        "backend flags",
        (_backends.cudnn, "enabled"),
        (_backends.cudnn, "benchmark"),
        (_backends.cudnn, "deterministic"),
        (_backends.mkldnn, "enabled"),
        (_backends.mkldnn, "deterministic"),
        (_cuda.matmul, "allow_fp16_reduced_precision_reduction"),
        (_cuda.matmul, "allow_bf16_reduced_precision_reduction"),
        (_cuda.matmul, "allow_fp16_accumulation"),
    ),
    GlobalSetting("attention kernels", lambda: tuple(read() for read, _ in _ATTENTION), _write_attention),
    GlobalSetting("autocast", lambda: _read_autocast("cpu"), lambda value: _write_autocast("cpu", value)),
    GlobalSetting("the stance of torch.compile", _read_stance, _write_stance, _tell_stance),
    GlobalSetting("Triton's knobs", _read_knobs, _write_knobs),
    GlobalSetting("numpy's error handling", np.geterr, lambda value: np.seterr(**value)),
    GlobalSetting("numpy's buffer size", np.getbufsize, np.setbufsize),
)

ON_CUDA = (
    GlobalSetting("the current device", torch.cuda.current_device, torch.cuda.set_device),
    GlobalSetting("the current stream", torch.cuda.current_stream, torch.cuda.set_stream),
    GlobalSetting("autocast", lambda: _read_autocast("cuda"), lambda value: _write_autocast("cuda", value)),
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
