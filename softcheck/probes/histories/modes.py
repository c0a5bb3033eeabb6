"""Circumstances that a caller sets around a call: gradient modes, autocast, defaults, another thread or stream."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch

from softcheck.calling import activity

REQUIRES_GRAD = "x.requires_grad_()"
PARAMETER = "x = torch.nn.Parameter(x)"
ANY_ALGORITHM = "torch.use_deterministic_algorithms(False)"
"""torch's default. What fills new memory with NaN has most other calls made with True."""
THREAD = "a thread of its own"
STREAM = "torch.cuda.stream(s)"
STREAMS = "torch.cuda.stream(s) while another call runs on another stream"
GRAPH = "torch.cuda.graph(g) and g.replay()"
COMPILED = 'torch.compile(backend="eager")'

_AND = " + "
_AUTOCAST = "torch.autocast"
_LOWERED = ("float16", "bfloat16")
"""Dtypes of autocast."""

_HOLDING = 4096
"""Rows of matrices whose products take as long as it takes to queue two calls."""

Function = Callable[[torch.Tensor], Any]


@contextmanager
def _changed(read: Callable[[], Any], write: Callable[[Any], object], value: object) -> Iterator[None]:
    """Gives a global setting a value, and puts the one before back."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def _default_dtype(dtype: torch.dtype) -> AbstractContextManager[object]:
    return _changed(torch.get_default_dtype, torch.set_default_dtype, dtype)


def _any_algorithm() -> AbstractContextManager[object]:
    return _changed(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, "default")


_CONTEXTS: tuple[dict[str, Callable[[str], AbstractContextManager[object]]], ...] = (
    {
        "torch.no_grad()": lambda _: torch.no_grad(),
        "torch.inference_mode()": lambda _: torch.inference_mode(),
    },
    {
        "torch.autocast(dtype=torch.bfloat16)": lambda device: torch.autocast(device, dtype=torch.bfloat16),
        "torch.autocast(dtype=torch.float16)": lambda device: torch.autocast(device, dtype=torch.float16),
    },
    {
        "torch.set_default_dtype(torch.float64)": lambda _: _default_dtype(torch.float64),
        "torch.set_default_dtype(torch.bfloat16)": lambda _: _default_dtype(torch.bfloat16),
        "torch.set_default_device(x.device)": torch.device,
    },
    {ANY_ALGORITHM: lambda _: _any_algorithm()},
)
_KINDS = (*_CONTEXTS, {REQUIRES_GRAD, PARAMETER})
_BY_NAME = {name: context for group in _CONTEXTS for name, context in group.items()}


def modes(*, on_gpu: bool, dtype: str, has_products: bool = False) -> list[list[str]]:
    """Names of the modes in groups of one kind, as a caller of a function on such inputs would write them.

    With ``has_products`` none is autocast, which lowers matrix products and torch's own attention to 16 bits, answer and
    all, where a softmax or a loss stays in float32.
    """
    on_device = [[STREAM, STREAMS], [GRAPH]] if on_gpu else []
    contexts = [[name for name in group if not (has_products and _AUTOCAST in name)] for group in _CONTEXTS]
    fitting = [list(dict.fromkeys(fitted(name, dtype) for name in group)) for group in contexts if group]
    return [*fitting, [REQUIRES_GRAD, PARAMETER], [THREAD], *on_device]


def fitted(mode: str, dtype: str) -> str:
    """Returns the mode for inputs of a dtype: autocast is to their dtype where that has 16 bits.

    Under the other autocast torch refuses to join such tensors, as with ``torch.cat``.
    """
    if dtype not in _LOWERED or _AUTOCAST not in mode:
        return mode
    own = f"{_AUTOCAST}(dtype=torch.{dtype})"
    return _AND.join(own if _AUTOCAST in part else part for part in parts(mode))


def with_gradient(x: torch.Tensor, mode: str) -> torch.Tensor:
    """Returns the input as a mode has it: without a gradient, with one, or as a parameter of a module that shares its memory."""
    if PARAMETER in parts(mode) and not isinstance(x, torch.nn.Parameter):
        return torch.nn.Parameter(x.detach())
    return x.requires_grad_(asks_for_gradient(mode))


def asks_for_gradient(mode: str) -> bool:
    """True if the input of a call in a mode requires a gradient."""
    return not {REQUIRES_GRAD, PARAMETER}.isdisjoint(parts(mode))


def together(first: str, second: str) -> str:
    """Returns the mode of a call in two modes, where both are of different kinds and belong to one thread; else the second."""
    kinds = [next((n for n, kind in enumerate(_KINDS) if mode in kind), None) for mode in (first, second)]
    return second if None in kinds or kinds[0] == kinds[1] else f"{first}{_AND}{second}"


def parts(mode: str) -> list[str]:
    """Returns the modes that a mode is made of."""
    return mode.split(_AND)


def in_mode(function: Function, mode: str) -> Function:
    """Returns the function as it is called in a mode; under autocast a wider output is rounded to the input's dtype.

    torch's own softmax returns float32 under autocast. That an input requires a gradient is for the caller to see to, as
    ``with_gradient`` does. A mode that belongs to a whole history, ``GRAPH``, is none here.
    """
    if mode == THREAD:
        return lambda x: _in_thread(function, x)
    if mode == STREAM:
        return lambda x: _on_stream(function, x)
    if mode == STREAMS:
        return lambda x: _on_streams(function, x)
    if mode == COMPILED:
        # Inductor's own code is another kernel; what the function does while it is traced is its own.
        compiled: Function = torch.compile(function, backend="eager", dynamic=False)

        def anew(x: torch.Tensor) -> Any:
            # Beyond a few compilations of one function torch calls it as it is.
            torch.compiler.reset()
            return compiled(x)

        return anew
    contexts = [_BY_NAME[each] for each in parts(mode) if each in _BY_NAME]
    if not contexts:
        return function

    def around(x: torch.Tensor) -> Any:
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context(x.device.type))
            output = function(x)
        is_wider = isinstance(output, torch.Tensor) and _AUTOCAST in mode and output.element_size() > x.element_size()
        return output.to(x.dtype) if is_wider else output

    return around


def _in_thread(function: Function, x: torch.Tensor) -> Any:
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(function, x).result()


def _on_stream(function: Function, x: torch.Tensor) -> Any:
    """Calls on another stream, which waits for the caller's; the caller's then waits for it."""
    side = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call]
    caller = torch.cuda.current_stream(x.device)
    side.wait_stream(caller)
    with torch.cuda.stream(side):
        output = function(x)
    caller.wait_stream(side)
    return output


def _on_streams(function: Function, x: torch.Tensor) -> Any:
    """Calls on two streams, on other values on the second; both begin when work on the caller's is done, which waits for both.

    What they share the second one overwrites under the first.
    """
    caller = torch.cuda.current_stream(x.device)
    sides = [torch.cuda.Stream(x.device) for _ in range(2)]  # type: ignore[no-untyped-call]
    inputs = [x, -x.detach()]
    work(x.device, size=_HOLDING)
    for side in sides:
        side.wait_stream(caller)
    outputs = []
    for side, each in zip(sides, inputs, strict=True):
        with torch.cuda.stream(side):
            outputs.append(function(each))
    for side in sides:
        caller.wait_stream(side)
    return outputs[0]


def captured(function: Function, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """Returns the graph of a call and its output, as torch's documentation of CUDA graphs has it."""
    x.zero_()
    side = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(side), activity.calling():
        for _ in range(3):
            function(x)
    torch.cuda.current_stream(x.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), activity.calling():
        output = function(x)
    return graph, output


def work(device: torch.device, size: int = 8192) -> None:
    """Queues matrix products on the current stream: some 15 ms, several times as long as a call takes to launch."""
    a = torch.ones(size, size, device=device, dtype=torch.bfloat16)
    product = torch.empty_like(a)
    for _ in range(9):
        torch.mm(a, a, out=product)
