"""The kernels that Triton launches on a GPU, kept as they were compiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from triton.compiler.compiler import CompiledKernel


@contextmanager
def launched() -> Iterator[list[CompiledKernel]]:
    """Collects the compiled kernels that are launched inside the block, each once, whenever they were compiled.

    Both ways of launching are seen, ``kernel[grid](...)`` of a decorated function and of the result of its ``warmup``:
    each asks the compiled kernel for the launch's metadata. Kernels that a library launches in its own way (torch's, or
    Inductor's) are not seen.
    """
    kernels: list[CompiledKernel] = []
    original = CompiledKernel.launch_metadata

    def recording(kernel: CompiledKernel, *arguments: Any, **options: Any) -> Any:
        if all(kernel is not seen for seen in kernels):
            kernels.append(kernel)
        return original(kernel, *arguments, **options)

    CompiledKernel.launch_metadata = recording
    try:
        yield kernels
    finally:
        CompiledKernel.launch_metadata = original
