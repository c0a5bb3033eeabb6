"""Tells from an exception whether a variant refused a size before it did anything. Imports no Triton."""

import dis
import re
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

import numpy as np
import torch

from softcheck.calling.unable import causes
from softcheck.contract import Refusal

_TENSOR = re.compile(r"numel \((\d+)\) exceeds triton maximum tensor numel \((\d+)\)")
"""Triton's message about a tensor that it can't compile, whether it compiles or interprets the kernel."""

_RAISES = dis.opmap["RAISE_VARARGS"]

_LIBRARIES = tuple(
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
    launched or the input written to (``did_nothing``). For an input without elements an operation may also raise it,
    such as a division by 0. An exception about the largest tensor that Triton compiles is always a refusal.
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
    last = _last(error.__traceback__)
    if not did_nothing or last is None:
        return None
    code, line = last.tb_frame.f_code, last.tb_lineno
    file = Path(code.co_filename).as_posix()
    is_library = file.startswith(_LIBRARIES) or (file.startswith(_STANDARD) and "/site-packages/" not in file)
    raises = code.co_code[last.tb_lasti] == _RAISES
    if is_library or not (raises or 0 in shape):
        return None
    message = " ".join("".join(traceback.format_exception_only(error)).split())[:200]
    return Refusal(rows=rows, columns=columns, error=message, place=f"{Path(file).name}:{line}")


def _last(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace
