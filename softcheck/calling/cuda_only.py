"""Tells from an exception that code insists on a CUDA device, and names the line and the mend. Imports no torch."""

import ast
import linecache
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

_ASKS = re.compile(r"\.is_cuda\b|\bcuda\b")
"""Words of a condition that asks for a CUDA tensor: ``x.is_cuda``, or ``x.device.type == "cuda"``."""

_NAMES_DEVICE = re.compile(r"""["']cuda(:\d+)?["']|\.cuda\(""")

_LIBRARIES = re.compile(r"/(torch|triton|softcheck)/")


def insists_on_cuda(error: BaseException) -> str | None:
    """Returns the line that refuses a tensor for not being on a CUDA device, with the mend; None for any other error.

    The line asserts that a tensor is, or raises below a condition that asks for it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or frames[-1].lineno is None:
        return None
    last = frames[-1]
    if not any(_ASKS.search(ast.unparse(test)) for test in _conditions(last.filename, last.lineno or 0)):
        return None
    return f"{_place(last)}; to judge the logic here, let it pass where os.environ.get('TRITON_INTERPRET') == '1'"


def names_cuda(error: BaseException) -> str:
    """Returns the variant's line behind an exception that torch raised for want of a device, with the mend if it names one."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if not _LIBRARIES.search(f.filename.replace("\\", "/"))]
    if not own:
        return ""
    is_named = _NAMES_DEVICE.search(own[-1].line or "")
    mend = "; to judge the logic here, take the device of the input: device=x.device" if is_named else ""
    return f" at {_place(own[-1])}{mend}"


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno} ({' '.join((frame.line or '').split())[:100]})"


def _conditions(filename: str, line: int) -> Iterator[ast.expr]:
    """The conditions of the assertion at a line, or of the ``if`` statements around it."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and _holds(node, line):
            yield node.test
        if isinstance(node, ast.If):
            raised = (each for each in (*node.body, *node.orelse) if isinstance(each, ast.Raise))
            yield from (node.test for each in raised if _holds(each, line))


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
