"""Helpers for most probes: ordinary rows, calls that never raise, and what the judge finds in their answers."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, Format, Values, decode
from softcheck.calling.call import Called, Placed, Returned, call_on_device, on_host, place, to_bits, to_tensor
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.recipe import available_bytes
from softcheck.contract import FindingKind, Violation
from softcheck.judge.by_contract import judge_call, judge_in_place
from softcheck.judge.tensors import passing
from softcheck.operations.operation import Operation
from softcheck.probes.base import Setting, Subject
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.space import contents
from softcheck.variants.adapt import operands_of

Answered = Called | Returned

_INTERPRETED_SHAPES = ((3, 129), (2, 600))
_INTERPRETED_HEADS = ((3, 129), (1, 260))
"""Of heads, whose programs grow with the square of the columns."""
_DEVICE_SHAPES = ((3, 129), (7, 513), (5, 1), (2, 1025), (33, 4097), (2, 32768))
"""Shapes for many probes: kernels that are specialised on the shape are then compiled once for all of them."""


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
    fmt = subject.setting.fmt
    return on_host(call_placed(subject, place(bits, fmt, layout, subject.device)), fmt)


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


_FEW_ELEMENTS = 1 << 20
"""Elements of rows that no screen passes, up to which the judge reads these rows alone."""
_MANY_ELEMENTS = 1 << 20
"""Elements above which an output on a GPU is judged where it lies, by some eighty kernels of torch."""
_MOST_NUMBERS = 2**21
"""Numbers of the outputs of heads of which a finding is told without a look at the others."""
_SMALL_BYTES = 1 << 15
"""Bytes of an output up to which the host looks at it.

That takes less time than many kernels on a device, each of which waits for its turn among other processes' kernels.
"""


def wrong_where_it_lies(
    subject: Subject, bits: Bits, output: torch.Tensor, call: Answered, fmt: Format, x: torch.Tensor | None = None
) -> tuple[Violation, ...]:
    """Returns the judge's violations for an output, [rows, numbers], of which the judge reads what no screen passes.

    ``x`` is the packed input, where it is at hand.
    """
    setting = subject.setting
    operation, masked = setting.operation, setting.declaration.fully_masked
    # Of heads a GPU is quicker even with the smallest.
    if max(bits.nbytes, output.nbytes) <= _SMALL_BYTES and not setting.has_heads:
        x, output = to_tensor(bits, fmt, torch.device("cpu")), output.detach().cpu()
    x = to_tensor(bits, fmt, subject.device) if x is None else x
    with torch.no_grad():
        passes = passing(x, output.detach().contiguous(), fmt, operation=operation, fully_masked=masked)
    others = ~passes.cpu().numpy()
    count = np.count_nonzero(others)
    if not count:
        return ()
    found = to_bits(output, fmt)
    is_of_few = 2 * count < len(bits) == len(found) and count * bits.shape[1] <= _FEW_ELEMENTS
    if is_of_few and not wrong_values(subject, bits[others], found[others], call, fmt):
        return ()
    # A finding needs a few of many wrong heads, and each judgement of all of them may take a minute.
    few = max(1, _MOST_NUMBERS // max(1, found[:1].size))
    if operation.parts is not None and len(bits) > few:
        wrong = wrong_values(subject, bits[:few], found[:few], call, fmt)
        if wrong:
            return wrong
    if setting.on_gpu and bits.size > _MANY_ELEMENTS:
        packed, answer = x.contiguous(), output.contiguous()
        return judge_in_place(subject.variant, packed, answer, fmt, of_cpu_library=call.of_cpu_library).violations
    return wrong_values(subject, bits, found, call, fmt)


def prefixed(violations: Sequence[Violation], words: str, **way: str) -> tuple[Violation, ...]:
    """Puts the circumstances in front of the violations' messages, and those that have an axis among their facts."""
    return tuple(violation.told(words, **way) for violation in violations)


def free_bytes(device: torch.device) -> int:
    """Bytes that a probe may plan with: free on the GPU, or available on the host."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes() or 0
