"""Makes Triton's interpreter round bfloat16 as GPUs do, and keeps NumPy's floating-point warnings out of its results.

Without this, the interpreter truncates when it converts float32 to bfloat16 (a GPU's cvt.rn rounds to nearest, ties to
even), and misreads subnormal bfloat16 numbers, so that every bfloat16 kernel would look up to one ULP wrong. Triton 3.6
also fails with NumPy 2.4 and later on every loop whose bounds are kernel arguments. An autotuned kernel would fail at
once where there is no GPU to time its configurations on. And each call of a device function, tl.max and tl.sum among them,
looks through all of Triton's language for what it has to replace, which takes half of a narrow row's time.
"""

import warnings
from functools import wraps
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from numpy.typing import NDArray

from softcheck.variants import launches

_MARK = "_softcheck_wrapped"


def is_on() -> bool:
    """Whether kernels decorated now are interpreted."""
    return bool(triton.knobs.runtime.interpret)


def correct() -> None:
    """Replaces the interpreter's bfloat16 and loop bound conversions, quietens launches and patches the language once in each.

    A second call changes nothing.

    Autotuned kernels run in the first configuration that their own pruning leaves.

    Raises RuntimeError where this Triton's interpreter has no such conversion to replace.
    """
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner

    original = getattr(interpreter, "_convert_float", None)
    if original is None:
        raise RuntimeError(
            f"Triton {triton.__version__}: triton.runtime.interpreter has no _convert_float, expected it as in Triton 3.6 "
            "to 3.9; without it bfloat16 results can't be trusted, so use one of those versions"
        )
    if hasattr(original, _MARK):
        return
    interpreter._convert_float = _wrap_conversion(original)  # noqa: SLF001
    interpreter._patch_lang_tensor = _wrap_tensor_patch(interpreter._patch_lang_tensor)  # noqa: SLF001
    interpreter._patch_lang = _wrap_language_patch(interpreter._patch_lang)  # noqa: SLF001
    interpreter.GridExecutor.__call__ = _wrap_launch(interpreter.GridExecutor.__call__)
    Autotuner.run = _wrap_tuning(Autotuner.run)


def _wrap_conversion(original: Any) -> Any:
    @wraps(original)
    def convert(values: NDArray[Any], source: tl.dtype, target: tl.dtype, rounding_mode: Any) -> NDArray[Any]:
        if (source, target) == (tl.float32, tl.bfloat16) and not _rounds_to_zero(rounding_mode):
            return round_to_bfloat16(values)
        if (source, target) == (tl.bfloat16, tl.float32):
            return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        converted: NDArray[Any] = original(values, source, target, rounding_mode)
        return converted

    setattr(convert, _MARK, True)
    return convert


def _rounds_to_zero(rounding_mode: Any) -> bool:
    return getattr(rounding_mode, "name", "") == "RTZ"


def round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bit patterns of float32 values rounded to nearest with ties to even, in the shape of ``values``."""
    return np.asarray(values, dtype=np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)


def _wrap_tensor_patch(original: Any) -> Any:
    @wraps(original)
    def patch(tensor: Any, *args: Any, **kwargs: Any) -> None:
        original(tensor, *args, **kwargs)
        # The interpreter's scalars are arrays of one element, which NumPy 2.4 no longer converts to int by itself.
        tensor.__index__ = lambda self: int(self.handle.data.item())

    return patch


_launches: list[set[tuple[int, ...]]] = []
"""For each launch that is running, the innermost last, which modules of the language are patched."""


def _wrap_language_patch(original: Any) -> Any:
    """Skips what the same launch has patched: device functions patch again at every call, and never put anything back."""

    @wraps(original)
    def patch(function: Any) -> Any:
        modules = tuple(
            sorted(
                {
                    id(module)
                    for module in function.__globals__.values()
                    if isinstance(module, ModuleType) and module in (tl, tl.core)
                }
            )
        )
        if not _launches:
            return original(function)
        if modules in _launches[-1]:
            return None
        _launches[-1].add(modules)
        return original(function)

    return patch


def _wrap_launch(original: Any) -> Any:
    @wraps(original)
    def launch(*args: Any, **kwargs: Any) -> Any:
        launches.note()
        _launches.append(set())
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                # A row of NaN is an ordinary input here; a GPU's maximum does not warn of it.
                warnings.filterwarnings("ignore", "All-NaN (slice|axis) encountered", RuntimeWarning)
                return original(*args, **kwargs)
        finally:
            _launches.pop()

    return launch


def _wrap_tuning(original: Any) -> Any:
    @wraps(original)
    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        configs = tuner.configs
        if len(configs) > 1:
            # Pruning reads the launch's arguments from here.
            tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
            tuner.configs = tuner.prune_configs(kwargs)[:1]
        try:
            return original(tuner, *args, **kwargs)
        finally:
            tuner.configs = configs

    return run
