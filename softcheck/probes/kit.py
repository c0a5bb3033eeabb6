"""What most probes need: ordinary rows, calls that never raise, and outputs compared bit for bit or with the oracle."""

from collections.abc import Sequence

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Format, bits_hex, decode, encode
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.judge.judge import judge
from softcheck.probes.base import Subject
from softcheck.probes.poison import nan_filled
from softcheck.variants.call import Called, call, place


def ordinary_rows(rows: int, columns: int, fmt: Format, seed: int = 0) -> Bits:
    """Bits of normally distributed logits of standard deviation 2, shape [rows, columns]; no two rows are equal."""
    generator = np.random.default_rng([seed, rows, columns])
    return encode(2.0 * generator.standard_normal((rows, columns)), fmt)


def call_on(subject: Subject, bits: Bits, layout: Layout = PACKED) -> Called:
    """The variant's output on a matrix of bits, with uninitialised memory poisoned with NaN."""
    with nan_filled():
        return call(subject.variant.function, place(bits, subject.setting.fmt, layout, subject.device))


def wrong_values(subject: Subject, bits: Bits, output: Bits) -> tuple[Violation, ...]:
    """What the judge finds wrong with an output."""
    masked = subject.setting.declaration.fully_masked
    return judge(bits, output, subject.setting.fmt, fully_masked=masked).violations


def differing(
    kind: FindingKind, expected: Bits, found: Bits, fmt: Format, message: str, inputs: Bits | None = None
) -> Violation | None:
    """A violation where two outputs of one shape differ in a bit, with the first such element; NaNs are all alike."""
    unequal = ~same_bits(expected, found, fmt)
    if not unequal.any():
        return None
    row, column = (int(i[0]) for i in np.nonzero(unequal))
    return Violation(
        kind,
        f"{message}: {int(unequal.sum())} of {unequal.size} output elements, first at row {row}, column {column}: "
        f"{bits_hex(found[row, column], fmt)}, expected {bits_hex(expected[row, column], fmt)} as before",
        count=int(unequal.sum()),
        row=row,
        column=column,
        input_bits=None if inputs is None else bits_hex(inputs[row, column], fmt),
        output_bits=bits_hex(found[row, column], fmt),
    )


def same_bits(first: Bits, second: Bits, fmt: Format) -> np.ndarray:
    """Where two arrays of bits agree; two NaNs agree whatever their payload."""
    same: np.ndarray = (first == second) | (_is_nan(first, fmt) & _is_nan(second, fmt))
    return same


def prefixed(violations: Sequence[Violation], words: str) -> tuple[Violation, ...]:
    """The violations with the circumstances in front of their messages."""
    return tuple(msgspec.structs.replace(v, message=f"{words}: {v.message}") for v in violations)


def free_bytes(device: torch.device) -> int:
    """Memory that a probe may plan with: free on the GPU, or available on the host."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 - a pseudo-file
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def _is_nan(bits: Bits, fmt: Format) -> np.ndarray:
    is_nan: np.ndarray = np.isnan(decode(bits, fmt))
    return is_nan
