"""A history as a script of plain torch calls, which fails as long as the fault is there and runs on its own."""

import ast
import textwrap
from collections.abc import Sequence

import msgspec
import torch

from softcheck.calling.call import TORCH_DTYPES
from softcheck.contract import VALUE_KINDS, FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.modes import ANY_ALGORITHM, GRAPH, PARAMETER, STREAM, STREAMS, THREAD, asks_for_gradient, parts
from softcheck.probes.steps import Step
from softcheck.variants.registry import resolve

_COMPARED = VALUE_KINDS | {FindingKind.NONDETERMINISTIC, FindingKind.UNWRITTEN_OUTPUT, FindingKind.WRONG_LAYOUT}

_HEAD = '''"""{words}

Shown by softcheck. The exit code is 1 as long as it is so.
"""
import gc, importlib, os, sys, threading
os.environ["TRITON_INTERPRET"] = "{interpreted:d}"
import numpy, torch
from torch.overrides import TorchFunctionMode

torch.set_deterministic_debug_mode("warn")  # New memory is filled with NaN.
{clock}sys.path.insert(0, {folder!r})
{imported}

def values(seed, rows, columns, dtype):
    drawn = 2.0 * numpy.random.default_rng([seed, rows, columns]).standard_normal((rows, columns))
    return torch.from_numpy(drawn).to(dtype).to({device!r})
'''

_MASKED = {"softmax": "0.0", "log_softmax": "float('-inf')", "logsumexp": "float('-inf')"}
"""Operations that torch has by the same name, each with its answer for a row of -inf where that is no NaN."""

_FAILING = '''
class failing(TorchFunctionMode):
    """Makes the allocation of a number fail."""
    def __init__(self, number):
        super().__init__()
        self.left = number
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.left -= func.__name__.removeprefix("new_").removesuffix("_like") in ("empty", "zeros", "ones", "full", "empty_strided")
        if self.left == 0:
            self.left = -1
            raise torch.OutOfMemoryError("out of memory")
        return func(*args, **(kwargs or {}))
'''

_REPLAYED = """
kept = {}
def replayed(x):
    key = x.shape, x.dtype, x.stride()
    if key not in kept:
        static, graph, side = torch.zeros_like(x), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                softmax(static)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            y = softmax(static)
        kept.clear()
        kept[key] = static, graph, y
    static, graph, y = kept[key]
    static.copy_(x)
    graph.replay()
    return y.clone()
"""

_CLOCK = """
import time
passed, tick = 0.0, 0.0  # Seconds by which Python's clocks are ahead, and more of them at each reading.
def ahead(read, units):
    def reading():
        global passed
        passed += tick
        return read() + type(read())(passed * units)
    return reading
for name in ("time", "monotonic", "perf_counter"):
    setattr(time, name, ahead(getattr(time, name), 1))
    setattr(time, name + "_ns", ahead(getattr(time, name + "_ns"), 10**9))
"""
"""Lines before the variant's import where time passes in a history."""

_LAYOUTS = {
    "packed": "{new}",
    "offset": "torch.cat([{new}.flatten()[:1], {new}.flatten()])[1:].view({rows}, {columns})",
    "transposed": "{new}.t().contiguous().t()",
    "row-step": "{new}.repeat(1, 2)[:, :{columns}]",
    "every-second-column": "{new}.repeat_interleave(2, dim=1)[:, ::2]",
    "expanded-rows": "{new}[:1].expand({rows}, -1)",
}

_CONTENTS = {
    "masked-columns": "[:, ::3] = float('-inf')",
    "masked-row": "[0] = float('-inf')",
    "nan": "[0, -1] = float('nan')",
    "infinity": "[0, -1] = float('inf')",
    "peak": "[0, -1] = 3e4",
    "far-below": "[0] -= min(1e5, torch.finfo(new.dtype).max / 2)",
    "jumps": "[::4, -max(1, new.shape[1] // 4):] += 60.0; new[1::4] += 900.0; new[2::4, 0] += 90.0; new[3::4, -1] += 30.0",
}
"""Contents, each with the assignment that makes them; of [rows, columns]."""

_BESIDE = {
    "one-dimensional": "softmax({x}.flatten())",
    "integers": "softmax(torch.ones({rows}, {columns}, dtype=torch.int64, device={x}.device))",
    "undeclared-dtype": "softmax({x}.double())",
}


def with_script(violation: Violation, subject: Subject, steps: Sequence[Step]) -> Violation:
    """Adds the script of these steps, of which the last breaks the promise, if one can be written.

    What is written for softmax here becomes another operation by its name, which is that of torch's function too.
    """
    name = subject.setting.operation.name
    imported = _imported(subject, name)
    if (
        imported is None
        or name not in _MASKED
        or violation.kind not in _COMPARED | {FindingKind.OUTPUT_REUSED, FindingKind.RAISED}
    ):
        return violation
    folder, line = imported
    words = "\n".join(textwrap.wrap(violation.message.partition(": row ")[0].replace("\\", "/").replace('"', "'"), 100))
    text = _HEAD.format(
        words=words,
        clock=_CLOCK * any(step.later or step.slow for step in steps),
        interpreted=not subject.setting.on_gpu,
        folder=folder,
        imported=line,
        device=subject.device.type,
    )
    body = _FAILING * any(step.failing for step in steps) + _REPLAYED * any(step.mode == GRAPH for step in steps)
    lines: list[str] = []
    tensors: dict[tuple[int, int, str, str], str] = {}
    for number, step in enumerate(steps):
        lines += _step(step, number, tensors)
        if violation.kind is FindingKind.OUTPUT_REUSED and step.act == "call":
            lines.append(f"came{number} = y{number}.detach().clone()")
    if violation.kind in _COMPARED:
        lines += _compared(steps[-1], subject, f"y{len(steps) - 1}", tensors)
    elif violation.kind is FindingKind.OUTPUT_REUSED:
        called = [number for number, step in enumerate(steps) if step.act == "call"]
        lines += [""]
        lines += [
            f"assert torch.equal(y{n}.nan_to_num(), came{n}.nan_to_num()), 'y{n} changed after it was returned'"
            for n in called
        ]
    body += "\n" + "\n".join(lines) + "\n"
    return msgspec.structs.replace(violation, script=text + body.replace("softmax", name))


def _imported(subject: Subject, name: str) -> tuple[str, str] | None:
    """Returns the folder to import from and the lines that define the operation; None for a call with other names."""
    where = resolve(subject.variant.name)
    call = subject.variant.call or "f(x)"
    names = {node.id for node in ast.walk(ast.parse(call, mode="eval")) if isinstance(node, ast.Name)}
    if names - {"f", "x", "torch"}:
        return None
    folder, _, file = where.location.rpartition("/")
    module = file.removesuffix(".py") if where.kind == "file" else where.location
    lines = f"f = importlib.import_module({module!r}).{where.function}\n"
    return folder, lines + (f"{name} = f" if call == "f(x)" else f"def {name}(x):\n    return {call}")


def _step(step: Step, number: int, tensors: dict[tuple[int, int, str, str], str]) -> list[str]:
    """The lines of one step; ``tensors`` names the input that was last made for a shape, dtype and layout."""
    if step.act == "collect":
        lines = [f"del {name}" for name in tensors.values()]
        tensors.clear()
        return [*lines, "gc.collect()", *["torch.cuda.empty_cache()"] * torch.cuda.is_available()]
    new = f"values({step.seed}, {step.rows}, {step.columns}, torch.{step.dtype})"
    key = (step.rows, step.columns, step.dtype, step.layout)
    is_kept = step.act == "call" and key in tensors
    x = tensors[key] if is_kept else f"x{number}"
    lines = []
    if step.contents != "ordinary" and step.rows and step.columns:
        lines += [f"new = {new}", f"new{_CONTENTS[step.contents]}"]
        new = "new"
    placed = _LAYOUTS[step.layout].format(new=new, rows=step.rows, columns=step.columns)
    if step.memory == "same" and is_kept and step.layout != "expanded-rows":
        lines += [f"{x}.data.copy_({placed})"]
    else:
        lines += [f"del {x}"] * (step.memory == "freed" and is_kept) + [f"{x} = {placed}"]
    if step.act != "call":
        call = _BESIDE[step.act].format(x=x, rows=step.rows, columns=step.columns)
        return [*lines, "try:", f"    {call}", "except Exception:", "    pass"]
    tensors[key] = x
    if step.failing:
        lines += [
            "try:",
            f"    with failing({step.failing}):",
            f"        softmax({x})",
            "except Exception:",
            "    pass",
        ]
    lines += [f"passed += {step.later:g}"] * bool(step.later)
    called = _call(step.mode, x, f"y{number}")
    return [*lines, f"tick = {step.slow:g}", *called, "tick = 0.0"] if step.slow else [*lines, *called]


def _call(mode: str, x: str, y: str) -> list[str]:
    """The lines of a call in a mode."""
    plain = f"{y} = softmax({x})"
    if not mode:
        return [plain]
    if mode == THREAD:
        call = f"threading.Thread(target=lambda: globals().update({y}=softmax({x})))"
        return [f"thread = {call}", "thread.start()", "thread.join()"]
    if mode in {STREAM, STREAMS, GRAPH}:
        return [f"{y} = replayed({x})"] if mode == GRAPH else _on_streams(x, y, beside=mode == STREAMS)
    lines = [plain]
    for each in reversed(parts(mode)):
        if asks_for_gradient(each):
            continue
        if each == ANY_ALGORITHM:
            lines = [each, *lines, 'torch.set_deterministic_debug_mode("warn")']
            continue
        if "set_default_dtype" in each:
            lines = ["before = torch.get_default_dtype()", each, *lines, "torch.set_default_dtype(before)"]
            continue
        context = each.replace("torch.autocast(", f"torch.autocast({x}.device.type, ").replace(
            "torch.set_default_device(x.device)", f"torch.device({x}.device)"
        )
        lines = [f"with {context}:", *(f"    {line}" for line in lines)]
    as_parameter = f"{x} = {x} if isinstance({x}, torch.nn.Parameter) else torch.nn.Parameter({x})"
    made = [as_parameter] * (PARAMETER in parts(mode)) + [f"{x}.requires_grad_()"] * asks_for_gradient(mode)
    return [*made, *lines]


def _on_streams(x: str, y: str, *, beside: bool) -> list[str]:
    """The lines of a call on another stream, which a call on other values on a third stream runs beside."""
    streams = ["stream", "beside"] if beside else ["stream"]
    lines = [f"{name} = torch.cuda.Stream()" for name in streams]
    if beside:
        lines += [f"other = -{x}", "work = torch.ones(4096, 4096, dtype=torch.bfloat16, device=other.device)"]
        lines += ["for _ in range(9):", "    work @ work"]
    lines += [f"{name}.wait_stream(torch.cuda.current_stream())" for name in streams]
    lines += ["with torch.cuda.stream(stream):", f"    {y} = softmax({x})"]
    if beside:
        lines += ["with torch.cuda.stream(beside):", "    softmax(other)"]
    return [*lines, "torch.cuda.synchronize()"]


def _compared(step: Step, subject: Subject, y: str, tensors: dict[tuple[int, int, str, str], str]) -> list[str]:
    """The lines that compare an output with float64 softmax, with a tolerance that every right kernel keeps."""
    info = torch.finfo(TORCH_DTYPES[step.dtype])
    x = tensors[step.rows, step.columns, step.dtype, step.layout]
    tolerance = info.eps * (16 if info.bits < 32 else 256)
    operation = subject.setting.operation
    scale = operation.parameters.get("scale", 1.0)
    scaled = f"{x}.detach().double()" if scale == 1.0 else f"{scale!r} * {x}.detach().double()"
    lines = ["", f"expected = torch.softmax({scaled}, dim=-1)"]
    if step.contents == "masked-row" and subject.setting.declaration.fully_masked == "zero":
        lines.append(f"expected = torch.where(expected.isnan(), {_MASKED[operation.name]}, expected)")
    compare = f"torch.testing.assert_close({y}.detach().double().view_as(expected), expected, rtol={tolerance:.1e}"
    least = 2 * info.smallest_normal * info.eps if operation.scale is None else tolerance
    return [*lines, f"{compare}, atol={least:.1e}, equal_nan=True)"]
