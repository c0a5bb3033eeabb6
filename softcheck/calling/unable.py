"""Distinction of a kernel's own errors from limits of Triton's interpreter, or of a machine without a GPU, and from refusals of a size.

Imports no Triton.
"""

import ast
import dis
import linecache
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import TracebackType

import numpy as np
import torch

from softcheck.contract import Refusal
from softcheck.errors import UninterpretableError

_NEEDS_GPU = ("/torch/cuda/", "/torch/accelerator/", "/triton/runtime/driver.py")
"""Files of torch and Triton that raise if there is no device."""

_LACKS_GPU = re.compile(
    r"Tried to instantiate dummy base class|has no attribute '_?(cuda|nccl)|not compiled with CUDA|compiled without CUDA"
    r"|requires CUDA support|without ATen_cuda|not linked with support for cuda|requires a CUDA or other accelerator"
    r"|accelerator device when none is available|from the 'CUDA' backend|Could not run 'aten::\w+' with arguments from the 'CPU'"
    r"|no NVIDIA driver|No CUDA GPUs are available|no CUDA-capable device|CUDA_ERROR_NO_DEVICE|CUDA driver version is insufficient"
    r"|CUDA driver initialization failed|Error at driver init|lib(cuda|cudart|nvrtc)\.so|CUDA_HOME environment variable",
    re.IGNORECASE,
)
"""Messages of torch's own C++, which has no file of a traceback, of its stand-ins for classes of a CUDA build, and of the driver's
loaders, where there is no device. The texts are those of torch 2.11 and 2.13, cuda-python and numba."""


def uninterpretable(operation: str) -> UninterpretableError:
    """The error for an operation that Triton's interpreter can't run, in the words of reports."""
    return UninterpretableError(f"Triton's interpreter can't run this: {operation}; judge it on a GPU")


def limit_behind(error: BaseException) -> UninterpretableError | None:
    """Returns what the interpreter, or this machine, can't do if the first cause of ``error`` is that; None for the variant's own error."""
    for cause in causes(error):
        if isinstance(cause, UninterpretableError):
            return cause
        frames = traceback.extract_tb(cause.__traceback__)
        raised_in = frames[-1].filename.replace("\\", "/") if frames else ""
        if isinstance(cause, NotImplementedError) and raised_in.endswith("triton/runtime/interpreter.py"):
            return uninterpretable(str(cause))
        lacks_gpu = any(place in raised_in for place in _NEEDS_GPU) or _LACKS_GPU.search(str(cause))
        if lacks_gpu and not torch.cuda.is_available():
            said = " ".join(str(cause).split())[:100]
            return UninterpretableError(f"this can't run without a GPU: {said}{names_cuda(cause)}; judge it on one")
        if os.environ.get("TRITON_INTERPRET") == "1" and (line := insists_on_cuda(cause)) is not None:
            return UninterpretableError(
                f"this can't run without a GPU: it insists on CUDA tensors at {line}; judge it on one"
            )
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, then the exception that it was raised from or while handling, and so on back to the first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


_ASKS = re.compile(r"\.is_cuda\b|\bcuda\b")
"""Words of a condition that asks for a CUDA tensor: ``x.is_cuda``, or ``x.device.type == "cuda"``."""

_NAMES_DEVICE = re.compile(r"""["']cuda(:\d+)?["']|\.cuda\(""")

_LIBRARIES = re.compile(r"/(torch|triton|softcheck)/")


def insists_on_cuda(error: BaseException) -> str | None:
    """Returns the line that asserts, or raises below a condition, that a tensor is on a CUDA device, with the fix; None for another error."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].lineno is None:
        return None
    last = frames[-1]
    if not any(_ASKS.search(ast.unparse(test)) for test in _conditions(last.filename, last.lineno or 0)):
        return None
    return f"{_place(last)}; to judge the logic here, let it pass where os.environ.get('TRITON_INTERPRET') == '1'"


def names_cuda(error: BaseException) -> str:
    """Returns the variant's line behind an exception that torch raised for want of a device, with the fix if it names one."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if not _LIBRARIES.search(f.filename.replace("\\", "/"))]
    if not own:
        return ""
    is_named = _NAMES_DEVICE.search(own[-1].line or "")
    mend = "; to judge the logic here, take the device of the input: device=x.device" if is_named else ""
    return f" at {_place(own[-1])}{mend}"


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno} ({' '.join((frame.line or '').split())[:100]})"


@cache
def _conditions(filename: str, line: int) -> tuple[ast.expr, ...]:
    """The conditions of the assertion at a line, or of the ``if`` statements around a ``raise`` there."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ()
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.Assert):
            body = (*node.body, *node.orelse) if isinstance(node, ast.If) else (node,)
            ends = [each for each in body if isinstance(each, ast.Raise) or each is node]
            found += [node.test for each in ends if each.lineno <= line <= (each.end_lineno or each.lineno)]
    return tuple(found)


_TENSOR = re.compile(r"numel \((\d+)\) exceeds triton maximum tensor numel \((\d+)\)")
"""Triton's message about a tensor that it can't compile, whether it compiles or interprets the kernel."""

_RAISES = dis.opmap["RAISE_VARARGS"]

_FOREIGN = tuple(
    f"{Path(found).as_posix()}/"
    for found in (
        Path(torch.__file__).parent,
        Path(np.__file__).parent,
        Path(torch.__file__).parent.parent / "triton",
        Path(__file__).parents[1] / "probes",
    )
)
_STANDARD = f"{Path(sysconfig.get_paths()['stdlib']).as_posix()}/"


def refusal_behind(error: BaseException, shape: tuple[int, int], *, did_nothing: bool) -> Refusal | None:
    """Returns the refusal of an input of this shape that an exception expresses; None for any other exception.

    An exception is a refusal if the variant's own code raises it by a statement of its own before any kernel was
    launched or the input written to (``did_nothing``). For an input without elements any exception is one, whatever its type and
    whoever raises it, as torch, numpy or Triton do for a maximum of nothing: there is nothing to compute, and the caller is told. An exception about the largest tensor that Triton compiles is always a refusal.
    """
    rows, columns = shape
    for cause in causes(error):
        found = _TENSOR.search(str(cause))
        if found is not None:
            return Refusal(
                rows=rows,
                columns=columns,
                error=f"a tensor of {found[1]} elements, and Triton compiles at most {found[2]}",
                place="Triton",
            )
    frames = _frames(error.__traceback__)
    if not did_nothing or not frames:
        return None
    last = frames[-1]
    own = next((frame for frame in reversed(frames) if not _is_of_library(frame)), last)
    raises = last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISES
    if 0 not in shape and (own is not last or _is_of_library(last) or not raises):
        return None
    message = " ".join("".join(traceback.format_exception_only(error)).split())[:200]
    place = f"{Path(own.tb_frame.f_code.co_filename).name}:{own.tb_lineno}"
    return Refusal(rows=rows, columns=columns, error=message, place=place)


def _frames(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    while trace is not None:
        found.append(trace)
        trace = trace.tb_next
    return found


def _is_of_library(frame: TracebackType) -> bool:
    file = Path(frame.tb_frame.f_code.co_filename).as_posix()
    return file.startswith(_FOREIGN) or (file.startswith(_STANDARD) and "/site-packages/" not in file)
