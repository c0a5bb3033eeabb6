"""Corrections to Triton's interpreter, with which it computes as Triton's language and PTX define, on every machine.

Without them it misreads and truncates bfloat16, adds up a tile's rows one after the other, fails on the ``argmax`` of
NaN, and takes its exponentials from NumPy, which rounds them differently on other processors. The modules
``_interpreter_*`` list the corrections. Without a GPU an autotuned kernel would fail at once, since its configurations
can't be timed.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np
import triton
import triton.language as tl

from softcheck.calling import launches
from softcheck.calling.unable import uninterpretable
from softcheck.toolchain import _interpreter_builder, _interpreter_folds, _interpreter_source, _interpreter_types
from softcheck.toolchain.stand_in_device import StandInKernel

_MARK = "_softcheck_wrapped"

MOST_SECONDS = 40.0
"""Seconds of the processor that a launch may be foretold to take. Calls are ended after 60 on the clock."""
SURE_AFTER = 4.0
"""Seconds after which a launch's programs foretell its end."""


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
        end_long_launches(interpreter.InterpreterBuilder)
        wrap(interpreter, "_patch_lang_tensor", _with_truth)
        wrap(interpreter, "_implicit_cvt", partial(_argument, interpreter))
        wrap(interpreter.GridExecutor, "__call__", _launch)
        setattr(interpreter.GridExecutor.__call__, _MARK, True)
        wrap(interpreter.InterpretedFunction, "run", _run)
        wrap(Autotuner, "run", tuned_by(lambda _, configs: configs[0]))
    except AttributeError as error:
        raise RuntimeError(
            f"Triton {triton.__version__}: {error}, expected it as in Triton 3.6 to 3.9; without it results of the interpreter "
            "can't be trusted, so use one of those versions"
        ) from error


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Puts ``around(original, *arguments)`` in the place of a function or a method of an owner."""
    original = getattr(owner, name)

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(owner, name, call)


@contextmanager
def wrapped(around: Mapping[tuple[Any, str], Callable[..., Any]]) -> Iterator[None]:
    """Does as ``wrap`` with functions and methods by owner and name, and puts them back behind the block."""
    originals = {(owner, name): getattr(owner, name) for owner, name in around}
    try:
        for (owner, name), each in around.items():
            wrap(owner, name, each)
        yield
    finally:
        for (owner, name), original in originals.items():
            setattr(owner, name, original)


def _with_truth(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
    original(tensor, *args, **kwargs)
    # The interpreter's scalars are arrays of one element, which NumPy 2.4 no longer converts to int by itself.
    tensor.__index__ = lambda self: int(self.handle.data.item())
    tensor.__bool__ = lambda self: _interpreter_folds.truth(self.handle.data)


def _argument(interpreter: Any, original: Any, argument: Any) -> Any:
    if isinstance(argument, float):
        # Launches pass float32, which takes part in promotions as a tensor does and a constant does not.
        handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32)
        return tl.tensor(handle, tl.float32)
    found = original(argument)
    if isinstance(argument, int) and found.dtype == tl.int64:
        # From 2^31 to 2^32 Triton keeps an int64 in 32 bits, where its own sums wrap.
        found.handle.data = found.handle.data.astype(np.int64)
    return found


def _launch(original: Any, *args: Any, **kwargs: Any) -> Any:
    launches.note()
    # NaN, overflow and division by zero are ordinary in a row; a GPU does not warn of them.
    with np.errstate(all="ignore"):
        return original(*args, **kwargs)


def _run(original: Any, function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    original(function, *args, grid=grid, warmup=warmup, **kwargs)
    return StandInKernel(function, kwargs)


def tuned_by(choose: Callable[[Any, list[Any]], Any | None]) -> Callable[..., Any]:
    """Returns what makes launches of autotuned kernels run in the configuration that is chosen, or as usual for None.

    ``choose`` gets the kernel, and the configurations that its own pruning leaves for the launch.
    """

    def run(original: Any, tuner: Any, *args: Any, **options: Any) -> Any:
        # Pruning reads the launch's arguments from here.
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.configs
        chosen = choose(tuner, list(tuner.prune_configs(options)) if len(configs) > 1 else list(configs))
        tuner.configs = configs if chosen is None else [chosen]
        try:
            return original(tuner, *args, **options)
        finally:
            tuner.configs = configs

    return run


def end_long_launches(builder: Any) -> None:
    """Ends launches that would take minutes, where Triton's ``InterpreterBuilder`` begins their programs: they are slow and do not hang.

    The interpreter runs one program after the other. Where each reads a whole wide row, a launch takes minutes, which a GPU
    would have done in milliseconds. From the programs that have run it is known how long all of them would take.
    """

    def begin_launch(original: Any, self: Any, *size: int) -> None:
        programs = math.prod(size)
        launches.note_programs(programs)
        self.softcheck_pace = _LaunchPace(programs)
        original(self, *size)

    def begin_program(original: Any, self: Any, *place: int) -> None:
        self.softcheck_pace.begin_program()
        original(self, *place)

    wrap(builder, "set_grid_dim", begin_launch)
    wrap(builder, "set_grid_idx", begin_program)


class _LaunchPace:
    def __init__(self, programs: int) -> None:
        self._programs, self._done = programs, -1
        self._begun = time.process_time()

    def begin_program(self) -> None:
        self._done += 1
        passed = time.process_time() - self._begun
        if passed > SURE_AFTER and (foretold := passed / self._done * self._programs) > MOST_SECONDS:
            raise uninterpretable(f"{self._programs} programs of one launch would take {foretold:.0f} s here")
