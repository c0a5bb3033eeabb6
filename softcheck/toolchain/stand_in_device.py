"""A stand-in for a GPU where there is none: modules and wrappers that ask for a device's properties can be interpreted.

Triton's driver and the functions of ``torch.cuda`` that only ask or wait answer as for an H100. ``torch.cuda.is_available()``
stays False, no memory and no stream exists, and kernels are interpreted. Triton's benchmarks are not run.
"""

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from softcheck.calling.unable import uninterpretable

_TARGET = "cuda:90"
_CAPABILITY = (9, 0)
_REGISTERS = 32
_SHARED_BYTES = 1024

_PROPERTIES = SimpleNamespace(
    name="stand-in for an NVIDIA H100",
    major=9,
    minor=0,
    multi_processor_count=132,
    total_memory=80 * 2**30,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=48 * 1024,
    shared_memory_per_block_optin=227 * 1024,
    shared_memory_per_multiprocessor=228 * 1024,
    L2_cache_size=50 * 2**20,
    # torch.compile asks for it where torch is built without CUDA, and uses it as a name alone.
    gcnArchName="",
)
"""Source: CUDA C++ programming guide, table of compute capabilities; NVIDIA's data sheet of the H100."""


def _nothing(*_arguments: Any, **_options: Any) -> None:
    return None


# One object for each name: torch.compile looks functions up by identity.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "current_device": lambda: 0,
    "get_device_properties": lambda _device=None: _PROPERTIES,
    "get_device_capability": lambda _device=None: _CAPABILITY,
    "get_device_name": lambda _device=None: _PROPERTIES.name,
    "set_device": lambda _device=None: None,
    "synchronize": lambda _device=None: None,
    "device": lambda _device=None: contextlib.nullcontext(),
    "device_of": lambda _tensor=None: contextlib.nullcontext(),
}


def install() -> None:
    """Lets the stand-in answer in this process. Changes nothing where torch sees a GPU, or at a second call."""
    if torch.cuda.is_available() or torch.cuda.current_device is _FUNCTIONS["current_device"]:
        return
    import triton
    import triton.testing

    from softcheck.toolchain.compile import stand_in_driver

    triton.runtime.driver.set_active(stand_in_driver(_TARGET))
    for name, function in _FUNCTIONS.items():
        setattr(torch.cuda, name, function)
    # A module may end in a benchmark, whose figures would say nothing.
    triton.testing.Mark.run = _nothing


class StandInKernel:
    """The result of an interpreted launch or warm-up; on a GPU it is the compiled kernel.

    Registers and shared memory are plausible ones; a launch of it is a launch of the interpreted function.
    """

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        """``options`` are the keyword arguments of the launch."""
        self._function = function
        self._options = options
        self.n_regs = _REGISTERS
        self.n_spills = 0
        self.metadata = SimpleNamespace(shared=_SHARED_BYTES, num_warps=options.get("num_warps", 4))

    def _init_handles(self) -> None:
        return

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*arguments: Any) -> Any:
            # Constants that the warm-up was given by name are part of a compiled kernel.
            known = set(self._function.arg_names[: len(arguments)])
            rest = {name: value for name, value in self._options.items() if name not in known}
            return self._function.run(*arguments, grid=grid, warmup=False, **rest)

        return launch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise uninterpretable(f"{name} of a compiled kernel")
