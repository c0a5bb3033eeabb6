"""The kernels that a variant launches, as Triton compiles them, for GPUs that this machine need not have.

Without a GPU a stand-in driver names the GPU to Triton, and every launch only compiles. The variant's own host code runs, so its
grids, block sizes, warps and warm-up compilations are those of a launch on that GPU. Kernels that a library launches
(torch's own, or Inductor's) are not seen.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import compiler as triton_compiler
from triton.compiler.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from softcheck.calling.call import TORCH_DTYPES
from softcheck.errors import SoftcheckError, UsageError
from softcheck.toolchain import interpreter


class KernelCompileError(SoftcheckError):
    """A kernel that Triton's compiler refuses for a target."""


_DEVICES = {
    "cuda:80": (32, 163 * 1024, 108),
    "cuda:86": (32, 99 * 1024, 84),
    "cuda:89": (32, 99 * 1024, 128),
    "cuda:90": (32, 227 * 1024, 132),
    "cuda:100": (32, 227 * 1024, 148),
    "hip:gfx942": (64, 64 * 1024, 304),
}
"""Threads of a warp, bytes of shared memory and multiprocessors of each device, which host code asks a driver for.

Sources: CUDA C++ programming guide, table of compute capabilities; CDNA3 ISA.
"""

TARGETS = tuple(_DEVICES)
"""Targets whose properties are known."""


def compile_for(
    function: Callable[[torch.Tensor], Any], target: str, dtype: str, shape: tuple[int, int]
) -> list[CompiledKernel]:
    """Compiles for a target the kernels that ``function`` launches for a contiguous input of that dtype and shape.

    The list is empty if the function launches no Triton kernel itself. Nothing runs on a device. Raises
    KernelCompileError if the compiler refuses a kernel, and UsageError for an unknown target or dtype or if Triton
    interprets kernels in this process. Other exceptions of the function pass through.
    """
    if dtype not in TORCH_DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}; expected one of: {', '.join(TORCH_DTYPES)}")
    # Rows of zeros alone would all have the same target, which may be one to be ignored.
    x = torch.linspace(-1.0, 1.0, math.prod(shape)).view(shape).to(TORCH_DTYPES[dtype])
    with compiling(target) as kernels:
        function(x)
    return kernels


@contextmanager
def launched() -> Iterator[list[CompiledKernel]]:
    """Collects the compiled kernels that are launched on a GPU inside the block, each once, whenever they were compiled.

    Both ways of launching are seen, ``kernel[grid](...)`` of a decorated function and of the result of its ``warmup``:
    each asks the compiled kernel for the launch's metadata.
    """
    kernels: list[CompiledKernel] = []

    def recording(original: Any, kernel: CompiledKernel, *arguments: Any, **options: Any) -> Any:
        if all(kernel is not seen for seen in kernels):
            kernels.append(kernel)
        return original(kernel, *arguments, **options)

    with interpreter.wrapped({(CompiledKernel, "launch_metadata"): recording}):
        yield kernels


@contextmanager
def compiling(target: str) -> Iterator[list[CompiledKernel]]:
    """Makes launches inside the block compile for ``target`` without running. Yields the kernels so far, each once."""
    if interpreter.is_on():
        raise UsageError(
            "kernels are interpreted in this process (TRITON_INTERPRET is set), so nothing can be compiled; "
            "start a process without TRITON_INTERPRET"
        )
    driver = triton.runtime.driver
    found: list[CompiledKernel] = []
    caches: dict[JITFunction, Any] = {}
    active, run = driver._active, JITFunction.run  # noqa: SLF001 - reading the active driver would start a real one
    # A tuner may have its own way to benchmark, or have kept that of a real GPU.
    tuned = Autotuner.__dict__["do_bench"]

    def compile_only(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:  # noqa: ARG001
        if kernel not in caches:
            # A cache for this target only.
            caches[kernel] = kernel.device_caches
            kernel.device_caches = defaultdict(kernel.create_binder)
        try:
            compiled = run(kernel, *args, grid=grid, warmup=True, **options)
        except Exception as error:
            raise KernelCompileError(_refusal(kernel, target, error)) from error
        if all(compiled.hash != known.hash for known in found):
            found.append(compiled)
        return compiled

    driver.set_active(stand_in_driver(target))
    JITFunction.run = compile_only
    Autotuner.do_bench = property(lambda _: _benchmark)
    # Cached by device number alone, so a real GPU's limit would be taken for this target's, and the other way round.
    triton_compiler.max_shared_mem.cache_clear()
    try:
        yield found
    finally:
        for kernel, cache in caches.items():
            kernel.device_caches = cache
        JITFunction.run = run
        Autotuner.do_bench = tuned
        driver._active = active  # noqa: SLF001
        triton_compiler.max_shared_mem.cache_clear()


def _refusal(kernel: JITFunction, target: str, error: Exception) -> str:
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    detail = " ".join(str(error).split())
    if root is not error:
        detail += f" ({type(root).__name__}: {' '.join(str(root).split())})"
    return f"kernel {kernel.fn.__name__} does not compile for {target}: {type(error).__name__}: {detail[:600]}"


def _benchmark(kernel_call: Callable[[], Any], quantiles: tuple[float, ...]) -> list[float]:
    """Makes a tuner's call once, as fast as every other."""
    kernel_call()
    return [0.0 for _ in quantiles]


class _Driver(SimpleNamespace):
    """A driver of no GPU. Triton's own are hashed by identity too."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def stand_in_driver(target: str) -> Any:
    """Returns a driver for Triton that answers as a GPU does and has none; ``target`` is one of ``TARGETS``.

    Raises UsageError for another target. Autotuned kernels compile every configuration; all are equally fast.
    """
    if target not in _DEVICES:
        raise UsageError(f"unknown target {target!r}; expected one of: {', '.join(TARGETS)}")
    backend, _, architecture = target.partition(":")
    warp_size, shared_bytes, multiprocessors = _DEVICES[target]
    gpu = GPUTarget(backend, int(architecture) if backend == "cuda" else architecture, warp_size)
    properties = {
        "max_shared_mem": shared_bytes,
        "max_num_regs": 65536,
        "multiprocessor_count": multiprocessors,
        "warpSize": warp_size,
        "sm_clock_rate": 1,
        "mem_clock_rate": 1,
        "mem_bus_width": 1,
    }

    return _Driver(
        utils=SimpleNamespace(
            get_device_properties=lambda _device=None: dict(properties),
            # Module, function, registers, spills and threads: no module, and as many registers as give full occupancy.
            load_binary=lambda *_arguments: (None, None, 32, 0, 1024),
        ),
        get_current_device=lambda: 0,
        set_current_device=lambda _device: None,
        get_current_stream=lambda _device=None: 0,
        get_current_target=lambda: gpu,
        get_active_torch_device=lambda: torch.device("cpu"),
        launcher_cls=lambda _source, _metadata: lambda *_arguments: None,
        get_benchmarker=lambda: _benchmark,
    )
