"""Test of the device judge: its kernels must agree with the numpy judge before they judge anything else.

Kernels are compiled by the user's Triton for the user's GPU, and a judge that is wrong there would call wrong kernels
right. Each kernel that is about to be used therefore first judges the built-in rows, in this process: right outputs,
and outputs with planted faults, which it counts by itself. Its measurements must equal those of the numpy judge.
"""

import platform

import numpy as np
import torch
import triton

from oracles.formats import Bits, Format
from oracles.reference import FullyMasked
from softcheck.calling.call import to_tensor
from softcheck.errors import SoftcheckError
from softcheck.judge.device import builtin_rows, dispatch, scan, short, table, tiles
from softcheck.judge.device.agreement import differing, without_order
from softcheck.judge.device.constants import Constants, constants_of
from softcheck.judge.device.judge import judge_on_device
from softcheck.judge.device.weaker import by_weaker
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.measurement import Measurement
from softcheck.operations import bounds
from softcheck.operations.arithmetic import Arithmetic

_FEW_PROGRAMS = 2
"""Programs of a scan: few, so that each takes several of the built-in rows one after the other, as with any large
input."""
_Key = tuple[object, ...]
_found: dict[_Key, str | None] = {}
"""Result for each set of kernels in this process: None if it is right, or a message that says what is wrong."""


class DistrustedError(SoftcheckError):
    """The device judge's kernels contradict the numpy judge on this machine; the message says what to report."""


def judge_trusted(
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    *,
    fully_masked: FullyMasked = "nan",
    arithmetic: Arithmetic = STANDARD,
    scans: bool = True,
) -> Measurement:
    """Runs ``judge_on_device`` with kernels that have first agreed with the numpy judge.

    The kernels judge by the standard contract. If that is broken and ``arithmetic`` allows more, the rows that may
    break ``arithmetic`` too are judged by it (``softcheck.judge.device.weaker``). Raises DistrustedError if the judges
    did not agree, and the errors of ``judge_on_device``, which explains ``scans``.
    """
    wrong = distrust(fmt, x.shape[1], fully_masked, x.device, scans=scans) if x.ndim == 2 else None
    if wrong is not None:
        raise DistrustedError(wrong)
    standard = bounds.model(STANDARD, fmt)
    if bounds.model(arithmetic, fmt) == standard or not constants_of(fmt, STANDARD, x.shape[-1])[1]:
        return judge_on_device(x, y, fmt, fully_masked=fully_masked, arithmetic=arithmetic, scans=scans)
    standard_found = judge_on_device(x, y, fmt, fully_masked=fully_masked, scans=scans)
    return by_weaker(standard_found, x, y, fmt, fully_masked, arithmetic)


def distrust(
    fmt: Format, columns: int, fully_masked: FullyMasked, device: torch.device, *, scans: bool = True
) -> str | None:
    """Returns why the kernels for ``columns`` columns can't be believed on this device, or None.

    Each set of kernels is tested once in a process.
    """
    # Wider rows than the scan's have kernels of their own, which are the same for all of them.
    width = min(columns, (scan.MAX_COLUMNS if scans else table.MAX_TILE) + 1)
    constants, supported = constants_of(fmt, STANDARD, width)
    if width < 1 or not supported:
        return None
    block = 0 if width > scan.MAX_COLUMNS else _scan_block(constants) if scans else table.block_of(width, few=True)
    flags = (constants.underflows, constants.far, constants.few_terms)
    judged_in = dispatch.arithmetic_of(constants, device)
    key = (fmt.name, block, block == width, *flags, fully_masked, str(device), judged_in, scans)
    if key not in _found:
        _found[key] = _compare(fmt, width, fully_masked, device, scans=scans)
    return _found[key]


def _scan_block(constants: Constants) -> int:
    """Columns of the tile of the scan's kernel; each of the narrow widths has a kernel of its own."""
    return constants.columns if short.suits(constants) else tiles.tile(constants.columns)[0]


def _compare(fmt: Format, columns: int, fully_masked: FullyMasked, device: torch.device, *, scans: bool) -> str | None:
    logits = builtin_rows.rows(fmt, columns)
    answers = builtin_rows.right(logits, fmt, fully_masked)
    for name, output in (("right", answers), ("wrong", builtin_rows.wrong(answers, fmt))):
        try:
            found = _differing(logits, output, fmt, fully_masked, device, scans=scans)
            if found:
                row, figures = _one_row(logits, output, fmt, fully_masked, device, scans=scans) or (
                    "all rows together",
                    found,
                )
                return _message(fmt, columns, f"{row}, {name} outputs: {figures}")
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a compiler or driver raises, the kernels can't be believed
            return _message(
                fmt, columns, f"{name} outputs: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            )
    return None


def _differing(
    logits: Bits, output: Bits, fmt: Format, fully_masked: FullyMasked, device: torch.device, *, scans: bool
) -> str:
    """The figures on which the judges differ, each with both values; "" if they agree."""
    x, y = to_tensor(logits, fmt, device), to_tensor(output, fmt, device)
    # With ``most_broken`` 0 no broken row is judged again, so that all counts are the device's.
    ours = without_order(
        judge_on_device(x, y, fmt, fully_masked=fully_masked, most_broken=0, programs=_FEW_PROGRAMS, scans=scans)
    )
    theirs = without_order(judge(logits, output, fmt, fully_masked=fully_masked))
    return differing(ours, theirs)


def _one_row(
    logits: Bits, output: Bits, fmt: Format, fully_masked: FullyMasked, device: torch.device, *, scans: bool
) -> tuple[str, str] | None:
    """The first row on which the judges differ when it is judged by itself, and the figures."""
    for row, what in enumerate(builtin_rows.CLASSES):
        # Twice: kernels for a single row would be compiled anew.
        twice = np.array([row, row])
        if found := _differing(logits[twice], output[twice], fmt, fully_masked, device, scans=scans):
            return f"row {row} ({what})", found
    return None


def _message(fmt: Format, columns: int, what: str) -> str:
    machine = platform.machine() if not torch.cuda.is_available() else torch.cuda.get_device_name()
    return (
        f"the device judge can't be believed here: on its built-in {fmt.name} rows of {columns} columns it contradicts the "
        f"numpy judge ({what}). Report this as an error of softcheck, with: {machine}, torch {torch.__version__}, Triton "
        f"{triton.__version__}, CUDA {torch.version.cuda}"
    )
