"""Circumstances that a caller sets around a call: gradient modes, autocast, defaults, another thread or stream."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import torch

from softcheck.calling.call import synchronize
from softcheck.calling.operands import Around

REQUIRES_GRAD = "x.requires_grad_()"
PARAMETER = "x = torch.nn.Parameter(x)"
ANY_ALGORITHM = "torch.use_deterministic_algorithms(False)"
"""torch's default. What fills new memory with NaN has most other calls made with True."""
THREAD = "a thread of its own"
THREADS = "four threads at once"
STREAM = "torch.cuda.stream(s)"
STREAMS = "torch.cuda.stream(s) while another call runs on another stream"
LOADED = "other work on another stream"
GRAPH = "torch.cuda.graph(g) and g.replay()"
COMPILED = 'torch.compile(backend="eager")'

_AUTOCAST = "torch.autocast"
_LOWERED = ("float16", "bfloat16")
"""Dtypes of autocast."""

_WORK, _HOLDING = 8192, 6144
"""Rows of matrices whose products take some 15 ms, and of those whose products take as long as it takes to queue two calls."""
_THREADS, _IN_A_THREAD = 4, 25
"""Threads that call at once, and the calls of each."""
_SWITCHING = 1e-5
"""Seconds after which Python goes on with another thread."""

Function = Callable[[torch.Tensor], Any]
Context = Callable[[str], AbstractContextManager[object]]
"""Returns the context of a mode for a type of device."""


@contextmanager
def _changed(read: Callable[[], Any], write: Callable[[Any], object], value: object) -> Iterator[None]:
    """Gives a global setting a value, and puts the one before back."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def _autocast(dtype: torch.dtype) -> Context:
    return lambda device: torch.autocast(device, dtype=dtype)


def _default_dtype(dtype: torch.dtype) -> Context:
    return lambda _: _changed(torch.get_default_dtype, torch.set_default_dtype, dtype)


_GROUPS: tuple[dict[str, Context], ...] = (
    {"torch.no_grad()": lambda _: torch.no_grad(), "torch.inference_mode()": lambda _: torch.inference_mode()},
    {f"{_AUTOCAST}(dtype={dtype})": _autocast(dtype) for dtype in (torch.bfloat16, torch.float16)},
    {
        **{f"torch.set_default_dtype({dtype})": _default_dtype(dtype) for dtype in (torch.float64, torch.bfloat16)},
        "torch.set_default_device(x.device)": torch.device,
    },
    {
        ANY_ALGORITHM: lambda _: _changed(
            torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, "default"
        )
    },
)
_CONTEXTS = {name: context for group in _GROUPS for name, context in group.items()}


def modes(*, on_gpu: bool, dtype: str, has_products: bool = False) -> list[list[str]]:
    """Names of the modes in groups of one kind, as a caller of a function on such inputs would write them.

    With ``has_products`` none is autocast, which lowers matrix products and torch's own attention to 16 bits, answer and
    all, where a softmax or a loss stays in float32.
    """
    contexts = [[name for name in group if not (has_products and _AUTOCAST in name)] for group in _GROUPS]
    fitting = [list(dict.fromkeys(fitted(name, dtype) for name in group)) for group in contexts if group]
    return [*fitting, [REQUIRES_GRAD, PARAMETER], [THREAD], *([[STREAM, STREAMS], [GRAPH]] if on_gpu else [])]


def fitted(mode: str, dtype: str) -> str:
    """Returns the mode for inputs of a dtype: autocast is to their dtype where that has 16 bits.

    Under the other autocast torch refuses to join such tensors, as with ``torch.cat``.
    """
    return f"{_AUTOCAST}(dtype=torch.{dtype})" if dtype in _LOWERED and _AUTOCAST in mode else mode


def field_of(mode: str) -> str:
    """Returns the field of a history's step that holds a mode: modes of one field stand in place of one another."""
    if asks_for_gradient(mode):
        return "grad"
    return "mode" if mode not in _CONTEXTS or mode in _GROUPS[0] else "settings"


def with_gradient(x: torch.Tensor, mode: str) -> torch.Tensor:
    """Returns the input as a mode has it: without a gradient, with one, or as a parameter of a module that shares its memory."""
    if mode == PARAMETER and not isinstance(x, torch.nn.Parameter):
        return torch.nn.Parameter(x.detach())
    return x.requires_grad_(asks_for_gradient(mode))


def asks_for_gradient(mode: str) -> bool:
    """True if the input of a call in a mode requires a gradient."""
    return mode in {REQUIRES_GRAD, PARAMETER}


def in_mode(function: Function, mode: str) -> Function:
    """Returns the function as it is called in a mode; under autocast a wider output is rounded to the input's dtype.

    torch's own softmax returns float32 under autocast. That an input requires a gradient is for the caller to see to, as
    ``with_gradient`` does.
    """
    if mode in _CALLS:
        return Around(function, _CALLS[mode])
    if mode not in _CONTEXTS:
        return function

    def call(function: Function, x: torch.Tensor) -> Any:
        with _CONTEXTS[mode](x.device.type):
            output = function(x)
        is_wider = isinstance(output, torch.Tensor) and _AUTOCAST in mode and output.element_size() > x.element_size()
        return output.to(x.dtype) if is_wider else output

    return Around(function, call)


def _compiled(function: Function, x: torch.Tensor) -> Any:
    """Calls what torch.compile makes of a function: Inductor's own code is another kernel, and what is traced is the function's."""
    # Beyond a few compilations of one function torch calls it as it is.
    torch.compiler.reset()
    return torch.compile(function, backend="eager", dynamic=False)(x)


def _in_thread(function: Function, x: torch.Tensor) -> Any:
    with ThreadPoolExecutor(max_workers=1) as threads:
        return threads.submit(function, x).result()


def _in_threads(function: Function, x: torch.Tensor) -> Any:
    """Calls again and again from several threads, on the rows in another order in each, and returns the first answer unlike that alone, or that one.

    An exception there is nobody's fault: Triton's autotuner is not made for threads. The interpreter is not either.
    """
    inputs = [x, *(x.detach().roll(turns, 0) for turns in range(1, _THREADS))]
    alone, ready, unlike = (
        [_copied(function(each)) for each in inputs],
        threading.Barrier(_THREADS),
        list[torch.Tensor](),
    )

    def call_again_and_again(turns: int) -> None:
        ready.wait()
        with suppress(Exception):
            for _ in range(_IN_A_THREAD):
                output = function(inputs[turns])
                # Where a row's answer depends on its place, what the others give is no answer for these rows.
                if not torch.equal(output, alone[turns]) and torch.equal(alone[turns].roll(-turns, 0), alone[0]):
                    unlike.append(_copied(output).roll(-turns, 0))
                    return

    with _changed(sys.getswitchinterval, sys.setswitchinterval, _SWITCHING), ThreadPoolExecutor(_THREADS) as threads:
        for turns in range(_THREADS):
            threads.submit(call_again_and_again, turns)
    return unlike[0] if unlike else alone[0]


def _copied(output: Any) -> Any:
    return output.detach().clone() if isinstance(output, torch.Tensor) else output


def _on_stream(function: Function, x: torch.Tensor) -> Any:
    """Calls on another stream, which is behind with other work; the input is written and the answer copied there.

    A variant that launches elsewhere reads what was there before, or its answer is copied before it is written.
    """
    side = torch.cuda.Stream(x.device)  # type: ignore[no-untyped-call]
    caller, values = torch.cuda.current_stream(x.device), x.detach().clone()
    # Expanded rows share their memory, and torch writes to none such.
    is_late = 0 not in x.stride()
    if is_late:
        x.data.zero_()
        # A stream of the variant's own, which waits for no other, must not find the values that were there before.
        synchronize(x.device)
    side.wait_stream(caller)
    try:
        with torch.cuda.stream(side):
            work(x.device, _HOLDING)
            if is_late:
                x.data.copy_(values)
            output = function(x)
            return output.clone() if isinstance(output, torch.Tensor) else output
    finally:
        caller.wait_stream(side)


def _on_streams(function: Function, x: torch.Tensor) -> Any:
    """Calls on two streams, on other values on the second; both begin when work on the caller's is done, which waits for both.

    What they share the second one overwrites under the first.
    """
    caller = torch.cuda.current_stream(x.device)
    sides = [torch.cuda.Stream(x.device) for _ in range(2)]  # type: ignore[no-untyped-call]
    work(x.device, _HOLDING)
    outputs = []
    for side in sides:
        side.wait_stream(caller)
    for side, each in zip(sides, [x, -x.detach()], strict=True):
        with torch.cuda.stream(side):
            outputs.append(function(each))
    for side in sides:
        caller.wait_stream(side)
    return outputs[0]


def _beside_work(function: Function, x: torch.Tensor) -> Any:
    with torch.cuda.stream(torch.cuda.Stream(x.device)):  # type: ignore[no-untyped-call]
        work(x.device)
    return function(x)


def _replayed(function: Function, x: torch.Tensor) -> Any:
    """Captures a call in a CUDA graph, as torch's documentation has it, and replays it: for other values, for these, and after a call on these.

    Returns the first answer unlike that of the call, or that one.
    """
    static, caller = torch.zeros_like(x).detach(), torch.cuda.current_stream(x.device)
    side, graph = torch.cuda.Stream(x.device), torch.cuda.CUDAGraph()  # type: ignore[no-untyped-call]
    side.wait_stream(caller)
    try:
        with torch.cuda.stream(side):
            for _ in range(3):
                function(static)
        caller.wait_stream(side)
        with torch.cuda.graph(graph):
            output = function(static)
    except Exception:  # noqa: BLE001 - that a call can be captured is not promised
        return function(x)
    replayed = []
    for values in (-x.detach(), x.detach()):
        static.copy_(values)
        graph.replay()
    replayed.append(_copied(output))
    alone = function(x)
    static.copy_(x.detach())
    graph.replay()
    replayed.append(_copied(output))
    are_tensors = isinstance(alone, torch.Tensor) and isinstance(output, torch.Tensor)
    return next((each for each in replayed if are_tensors and not torch.equal(each, alone)), alone)


_CALLS: Mapping[str, Callable[[Function, torch.Tensor], Any]] = {
    THREAD: _in_thread,
    THREADS: _in_threads,
    STREAM: _on_stream,
    STREAMS: _on_streams,
    LOADED: _beside_work,
    GRAPH: _replayed,
    COMPILED: _compiled,
}
"""Modes in which somebody else makes the call, or beside others."""


def work(device: torch.device, size: int = _WORK) -> None:
    """Queues matrix products on the current stream, several times as long as a call takes to launch."""
    a = torch.ones(size, size, device=device, dtype=torch.bfloat16)
    product = torch.empty_like(a)
    for _ in range(9):
        torch.mm(a, a, out=product)
