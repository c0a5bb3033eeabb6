"""Helpers for most probes: ordinary rows, calls that never raise, and calls compared bit for bit."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, Format, Values, bits_hex, decode, format_of
from softcheck.calling.call import Called, Launched, Placed, Returned, call, call_on_device, place, to_bits, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.recipe import available_bytes
from softcheck.contract import FindingKind, Violation
from softcheck.judge.by_contract import judge_call
from softcheck.judge.tensors import passing
from softcheck.operations.operation import Operation
from softcheck.probes.base import Setting, Subject
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.space import contents
from softcheck.variants.adapt import operands_of

Answered = Called | Returned | Launched
Kept = np.ndarray | None
"""Elements of an answer that count: those of an array of bool, of a shape that fits; None for all."""

_INTERPRETED_SHAPES = ((3, 129), (2, 600))
_INTERPRETED_HEADS = ((3, 129), (1, 260))
"""Of heads, whose programs grow with the square of the columns."""
_DEVICE_SHAPES = ((3, 129), (7, 513), (5, 1), (2, 1025), (33, 4097), (2, 32768))
"""Shapes for many probes: kernels that are specialised on the shape are then compiled once for all of them."""
_REPEATS = 6
"""Equal calls that must agree: one that has two answers by chance passes both for the cause of a difference in 1 of 4096 cases."""


def shapes(setting: Setting) -> list[tuple[int, int]]:
    """Rows and columns for a probe without shapes of its own, as far as the declaration takes them."""
    interpreted = _INTERPRETED_SHAPES if setting.operation.parts is None else _INTERPRETED_HEADS
    chosen = _DEVICE_SHAPES[: 2 if setting.quick else None] if setting.on_gpu else interpreted
    return [(rows, columns) for rows, columns in chosen if setting.takes(columns)]


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Returns a function's parameters by name; none of a callable written in C that has no signature to read."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


ordinary_rows = contents.ordinary_rows


def call_on(subject: Subject, bits: Bits, layout: Layout = PACKED) -> Called:
    """Calls the variant on a matrix of bits, with uninitialised memory poisoned with NaN."""
    with nan_filled():
        return call(
            subject.variant.function,
            place(bits, subject.setting.fmt, layout, subject.device),
            subject.setting.operation,
        )


def call_placed(subject: Subject, placed: Placed) -> Returned:
    """Calls the variant on an input where it lies, with uninitialised memory poisoned with NaN; the output stays on the device."""
    with nan_filled():
        return call_on_device(subject.variant.function, placed, subject.setting.operation)


def named_operands(function: object, operation: Operation) -> str:
    """The tensors of a call that are laid out as the matrix is, by their names: ``x and mask``, ``q, k and v``."""
    *others, last = [*(operand.name for operand in operation.operands), *sorted(operands_of(function))]
    return f"{', '.join(others)} and {last}" if others else last


def takes_gradients(operation: Operation) -> bool:
    """True if a call takes output gradients that can be named, as a backward does."""
    return operation.with_named is not None and any(operand.name == "grad" for operand in operation.operands)


def with_gradients(subject: Subject, grads: Values) -> Subject:
    """Returns the subject with these output gradients, [rows, columns]."""
    return replace(subject, variant=subject.variant.of(subject.setting.operation.naming({"grad": grads})))


def with_packed_gradients(subject: Subject, rows: int, columns: int) -> Subject:
    """Returns the subject with output gradients that are named where its operation takes some: ordinary numbers in each row.

    Those drawn from rows lie otherwise where all are constant, and a kernel may take another way for them: its answers may then have
    other last bits for other neighbours.
    """
    setting = subject.setting
    if not takes_gradients(setting.operation):
        return subject
    return with_gradients(subject, decode(ordinary_rows(rows, columns, setting.fmt, setting.seed + 1), setting.fmt))


def stopped(called: Called | Returned) -> Outcome:
    """Returns the outcome of a trial that a call ends, as one without an output does: with the call's own violations."""
    return Outcome(violations=called.violations, fatal=called.fatal)


def only(violations: Sequence[Violation], *kinds: FindingKind) -> tuple[Violation, ...]:
    """Returns the violations of these kinds. Other kinds are for other probes to report."""
    return tuple(v for v in violations if v.kind in kinds)


def wrong_values(
    subject: Subject, bits: Bits, output: Bits, call: Answered, fmt: Format | None = None
) -> tuple[Violation, ...]:
    """Returns the judge's violations for an output of a call, or for a part of its output; ``fmt`` is the call's, where it is not the setting's."""
    fmt, of_library = fmt or subject.setting.fmt, call.of_cpu_library
    return judge_call(subject.variant, bits, output, fmt, subject.device, of_cpu_library=of_library).violations


def screened(subject: Subject, x: torch.Tensor, output: torch.Tensor, fmt: Format) -> torch.Tensor:
    """Returns the rows that surely keep their bounds, bool [rows], where they lie."""
    operation, masked = subject.setting.operation, subject.setting.declaration.fully_masked
    with torch.no_grad():
        return passing(x, output.detach().contiguous(), fmt, operation=operation, fully_masked=masked)


_FEW_ELEMENTS = 1 << 20
"""Elements of rows that no screen passes, up to which the judge reads these rows alone."""


def right_where_it_lies(
    subject: Subject, x: torch.Tensor, output: torch.Tensor, bits: Bits, found: Bits, call: Answered, fmt: Format
) -> bool:
    """True if the judge passes the rows that no screen passes, and these are few, such as those with a NaN."""
    others = ~screened(subject, x, output, fmt).cpu().numpy()
    count = np.count_nonzero(others)
    if 2 * count >= len(bits) or len(bits) != len(found) or count * bits.shape[1] > _FEW_ELEMENTS:
        return False
    return not (count and wrong_values(subject, bits[others], found[others], call, fmt))


def wrong_where_it_lies(
    subject: Subject, bits: Bits, output: torch.Tensor, call: Answered, fmt: Format
) -> tuple[Violation, ...]:
    """Returns the judge's violations for an output, [rows, numbers], of which the judge reads what no screen passes."""
    found = to_bits(output, fmt)
    if right_where_it_lies(subject, to_tensor(bits, fmt, subject.device), output, bits, found, call, fmt):
        return ()
    return wrong_values(subject, bits, found, call, fmt)


def differing(
    kind: FindingKind, expected: Bits, found: Bits, fmt: Format, message: str, inputs: Bits | None = None
) -> Violation | None:
    """Returns a violation if two outputs of one shape, [..., numbers], differ in a bit, with the first such element.

    All NaNs are alike. A row is one along the last dimension.
    """
    unequal = ~same_bits(expected, found, fmt)
    if not unequal.any():
        return None
    at = int(np.argmax(unequal))
    row, column = divmod(at, unequal.shape[-1])
    # A number of a head belongs to no one element of the matrix.
    input_bits = None if inputs is None or inputs.shape != found.shape else bits_hex(inputs.flat[at], fmt)
    fmt = format_of(found, fmt)
    return Violation(
        kind,
        f"{message}: {int(unequal.sum())} of {unequal.size} output elements, first at row {row}, column {column}: "
        f"{bits_hex(found.flat[at], fmt)}, expected {bits_hex(expected.flat[at], fmt)} as before",
        count=int(unequal.sum()),
        row=row,
        column=column,
        input_bits=input_bits,
        output_bits=bits_hex(found.flat[at], fmt),
    )


def same_bits(first: Bits, second: Bits, fmt: Format) -> np.ndarray:
    """Returns where two arrays of bits agree, bool of their shape; two NaNs agree whatever their payload."""
    same: np.ndarray = first == second
    # Most outputs are equal throughout, and a test for NaN must decode every element.
    return same if same.all() else same | (_is_nan(first, fmt) & _is_nan(second, fmt))


def repeats(seen: Bits | None, again: Callable[[], Bits | None], fmt: Format, kept: Kept = None) -> bool:
    """True if calls that are equal to one give its bits again, each time, where an element is ``kept``.

    A kernel that varies by itself is not accused of what changes its answer. One that adds atomically may have two answers, and
    gives the one that was seen every second time.
    """
    if seen is None:
        return False
    outputs = (again() for _ in range(_REPEATS))
    return all(
        output is not None and bool(same_bits(seen, output, fmt).all(where=True if kept is None else kept))
        for output in outputs
    )


class Repeated:
    """A call that can be made again; ``made`` is its outcome where it was made already."""

    def __init__(self, make: Callable[[], Called], made: Called | None = None) -> None:
        self.make, self._made = make, made

    @property
    def first(self) -> Called:
        """The call, made once."""
        if self._made is None:
            self._made = self.make()
        return self._made

    def repeats(self, fmt: Format, kept: Kept = None) -> bool:
        """True if it gives the same bits each time it is made again."""
        return repeats(self.first.output, lambda: self.make().output, fmt, kept)


def unlike(
    one: Repeated,
    other: Repeated,
    kind: FindingKind,
    message: str,
    fmt: Format,
    *,
    kept: Kept = None,
    inputs: Bits | None = None,
) -> Outcome | None:
    """Compares two calls that differ in what should not matter to the elements that are ``kept``.

    Returns None if these have the same bits, or if one of the calls varies by itself, and else what ends the trial: a violation,
    or that a call gave no answer.
    """
    for called in (one.first, other.first):
        if called.output is None:
            return stopped(called)
    assert one.first.output is not None
    assert other.first.output is not None
    expected = one.first.output if kept is None else np.where(kept, one.first.output, other.first.output)
    found = differing(kind, expected, other.first.output, fmt, message, inputs)
    if found is None or not (one.repeats(fmt, kept) and other.repeats(fmt, kept)):
        return None
    return Outcome(violations=(found,))


def prefixed(violations: Sequence[Violation], words: str, **way: str) -> tuple[Violation, ...]:
    """Puts the circumstances in front of the violations' messages, and those that have an axis among their facts."""
    return tuple(violation.told(words, **way) for violation in violations)


def free_bytes(device: torch.device) -> int:
    """Bytes that a probe may plan with: free on the GPU, or available on the host."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes() or 0


def _is_nan(bits: Bits, fmt: Format) -> np.ndarray:
    is_nan: np.ndarray = np.isnan(decode(bits, format_of(bits, fmt)))
    return is_nan
