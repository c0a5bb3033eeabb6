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
    return file.startswith(_LIBRARIES) or (file.startswith(_STANDARD) and "/site-packages/" not in file)
