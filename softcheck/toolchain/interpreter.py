"""Corrections to Triton's interpreter, with which it computes as Triton's language and PTX define, on every machine.

Without them it misreads and truncates bfloat16, adds up a tile's rows one after the other, fails on the ``argmax`` of
NaN, and takes its exponentials from NumPy, which rounds them differently on other processors. The modules
``_interpreter_*`` list the corrections. Without a GPU an autotuned kernel would fail at once, since its configurations
can't be timed.
"""

from functools import wraps
from typing import Any

import numpy as np
import triton
import triton.language as tl

from softcheck.calling import launches
from softcheck.toolchain import (
    _interpreter_builder,
    _interpreter_folds,
    _interpreter_pace,
    _interpreter_source,
    _interpreter_types,
)
from softcheck.toolchain.stand_in_device import StandInKernel

_MARK = "_softcheck_wrapped"


def is_on() -> bool:
    """True if kernels decorated now are interpreted."""
    return bool(triton.knobs.runtime.interpret)


def correct() -> None:
    """Replaces operations that the interpreter computes otherwise than a GPU, and quietens launches.

    A second call changes nothing. Autotuned kernels run in the first configuration that their own pruning leaves.

    Raises RuntimeError if this Triton's interpreter is not built like the known ones.
    """
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner

    try:
        if hasattr(interpreter.GridExecutor.__call__, _MARK):
            return
        # First, since the other modules take the functions that it replaces.
        _interpreter_types.install(interpreter)
        _interpreter_builder.install(interpreter)
        _interpreter_folds.install(interpreter)
        _interpreter_source.install(interpreter)
        _interpreter_pace.install(interpreter)
        interpreter._patch_lang_tensor = _wrap_tensor_patch(interpreter._patch_lang_tensor)  # noqa: SLF001
        interpreter._implicit_cvt = _wrap_arguments(interpreter, interpreter._implicit_cvt)  # noqa: SLF001
        interpreter.GridExecutor.__call__ = _wrap_launch(interpreter.GridExecutor.__call__)
        interpreter.InterpretedFunction.run = _wrap_run(interpreter.InterpretedFunction.run)
        Autotuner.run = _wrap_tuning(Autotuner.run)
    except AttributeError as error:
        raise RuntimeError(
            f"Triton {triton.__version__}: {error}, expected it as in Triton 3.6 to 3.9; without it results of the interpreter "
            "can't be trusted, so use one of those versions"
        ) from error


def _wrap_tensor_patch(original: Any) -> Any:
    @wraps(original)
    def patch(tensor: Any, *args: Any, **kwargs: Any) -> None:
        original(tensor, *args, **kwargs)
        # The interpreter's scalars are arrays of one element, which NumPy 2.4 no longer converts to int by itself.
        tensor.__index__ = lambda self: int(self.handle.data.item())
        tensor.__bool__ = lambda self: _interpreter_folds.truth(self.handle.data)

    return patch


def _wrap_arguments(interpreter: Any, original: Any) -> Any:
    @wraps(original)
    def convert(argument: Any) -> Any:
        if isinstance(argument, float):
            # Launches pass float32, which takes part in promotions as a tensor does and a constant does not.
            handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        found = original(argument)
        if isinstance(argument, int) and found.dtype == tl.int64:
            # From 2^31 to 2^32 Triton keeps an int64 in 32 bits, where its own sums wrap.
            found.handle.data = found.handle.data.astype(np.int64)
        return found

    return convert


def _wrap_launch(original: Any) -> Any:
    @wraps(original)
    def launch(*args: Any, **kwargs: Any) -> Any:
        launches.note()
        # NaN, overflow and division by zero are ordinary in a row; a GPU does not warn of them.
        with np.errstate(all="ignore"):
            return original(*args, **kwargs)

    setattr(launch, _MARK, True)
    return launch


def _wrap_run(original: Any) -> Any:
    @wraps(original)
    def run(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        original(function, *args, grid=grid, warmup=warmup, **kwargs)
        return StandInKernel(function, kwargs)

    return run


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
