"""Equal calls: the same input must give the same bits every time, whatever memory held before, and each answer has memory of its own.

``determinism`` repeats a call, on a GPU under load and on another stream too. Calls with others in between are for the probe of histories.

``unwritten`` fills all memory that torch hands out uninitialised, output and workspace, with one pattern after another. NaN reaches every
allocation, since torch itself fills it. Bytes 0x7F and ordinary values reach memory that Python code asks for by name, and memory that
the allocators hand out again.

``input_untouched`` uses one tensor again and again. Inputs are compared byte for byte before and after each call (``calling.call``).
Outputs must lie neither in the input's memory nor in a buffer that the next call writes to.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch

from oracles.formats import Bits
from softcheck.calling.call import Called, Placed, call, on_host, place, to_bits
from softcheck.calling.operands import given, inputs_of
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import call_on, call_placed, only, ordinary_rows, shapes, stopped
from softcheck.probes.histories.modes import LOADED, STREAM, in_mode
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import dirty, filled, nan_filled
from softcheck.probes.same_bits import Repeated, differing, unlike
from softcheck.probes.tuning import untuned

_WIDE = 32768
_MANY = 64
"""Rows of which there are fewer where each has more numbers than one of softmax."""


class _Equal(NamedTuple):
    """Equal calls. A race shows when many programs run at once; those that share a wide row may add their sums in any order."""

    rows: int
    calls: int
    mode: str = ""
    """The mode of all calls but the first."""
    words: str = "call {} on the same input differs from the first"
    is_tuned: bool = True
    """False to begin with the first call after tuning is forgotten."""


_ELSEWHERE = {"repeats": _Equal(2, 4, is_tuned=False), "many-rows": _Equal(6, 2)}
_ON_GPU = {
    "repeats": _Equal(2, 40, is_tuned=False),
    "many-rows": _Equal(16384, 4),
    "wide-rows": _Equal(32, 10),
    "under-load": _Equal(16384, 4, LOADED, "call {} differs from the first while another stream keeps the device busy"),
    "other-stream": _Equal(
        *(16384, 2, STREAM),
        "call {}, in torch.cuda.stream(s), with the input written and the output copied on s, differs from the first; launch on "
        "torch.cuda.current_stream()",
    ),
}


def _repetitions(setting: Setting) -> Iterator[tuple[str, tuple[_Equal, int]]]:
    tried = (_ON_GPU if setting.on_gpu else _ELSEWHERE).items()
    widest = min(setting.declaration.column_limit(setting.dtype) or _WIDE, _WIDE)
    for number, (label, equal) in enumerate(each for each in tried if not (each[1].mode and setting.quick)):
        # No earlier call has these shapes, so that a cache by shape can't hold an answer yet.
        columns = widest - setting.fmt.precision if label == "wide-rows" else 70 + setting.fmt.precision + 3 * number
        if columns > 0 and setting.takes(columns):
            yield label, (equal, columns)


def _repeated(subject: Subject, asked: tuple[_Equal, int]) -> Iterator[Outcome | None]:
    """Repeats a call, with poisoned memory and without.

    Poisoning makes torch choose deterministic forms of its operations. Calls are therefore repeated as a user makes them too.
    """
    (equal, columns), setting = asked, subject.setting
    rows = setting.fewer(equal.rows, columns) if equal.rows > _MANY else equal.rows
    bits = ordinary_rows(rows, columns, setting.fmt, setting.seed)
    other = subject.calling(in_mode(subject.variant.function, equal.mode))

    def bare(made: Subject, bits: Bits) -> Called:
        return call(made.variant.function, place(bits, setting.fmt, PACKED, made.device), setting.operation)

    for make in (call_on, bare):
        with nullcontext() if equal.is_tuned or make is bare else untuned():
            first = Repeated(partial(make, subject, bits), make(subject, bits))
        for number in range(2, equal.calls + 1):
            again, words = Repeated(partial(make, other, bits)), equal.words.format(number)
            yield unlike(first, again, FindingKind.NONDETERMINISTIC, words, setting.fmt, inputs=bits, varies=True)


_ORDINARY = 0.34375
"""A value that softmax may return, so that values computed from it are plausible too. It is exact in every format."""
_PATTERNS: Mapping[str, tuple[int | None, int]] = {"bytes 0x7f": (0x7F, 0x7F), "ordinary values": (None, 0x34)}
"""The byte that fills memory, which holds the ordinary value elsewhere, and the byte that freed blocks hold."""


def _shapes(setting: Setting) -> Iterable[tuple[str, tuple[int, int]]]:
    """One trial per shape. There are wide shapes, since a kernel leaves a tail out beyond a tile's width."""
    asked = shapes(setting) if setting.on_gpu else [(2, columns) for columns in (129, 1100) if setting.takes(columns)]
    return [(f"{rows}x{columns}", (rows, columns)) for rows, columns in asked]


def _on_patterns(subject: Subject, shape: tuple[int, int]) -> Iterator[Outcome | None]:
    fmt = subject.setting.fmt
    bits = ordinary_rows(*shape, fmt, subject.setting.seed)
    plain = Repeated(partial(call_on, subject, bits))
    for name, (fill, byte) in _PATTERNS.items():
        other = Repeated(partial(_on_pattern, subject, bits, fill, byte))
        said = f"output elements change with uninitialised memory, where it held NaN before the call, and then {name}"
        yield unlike(plain, other, FindingKind.UNWRITTEN_OUTPUT, said, fmt, inputs=bits)


def _on_pattern(subject: Subject, bits: Bits, fill: int | None, byte: int) -> Called:
    placed = place(bits, subject.setting.fmt, PACKED, subject.device)
    rows, _ = bits.shape
    # The output, and values that a kernel may keep per row: in the input's type, in float32 or int32, and in float64.
    sizes = (bits.nbytes, rows * bits.itemsize, 4 * rows, 8 * rows, 4 * bits.size)
    dirty(subject.device, tuple(dict.fromkeys(sizes)), byte)
    with nan_filled(filling=False), filled(_ORDINARY, fill):
        return call(subject.variant.function, placed, subject.setting.operation)


_ROWS, _COLUMNS = 3, 71
"""A shape that no other probe uses, so that the first call on it is the call that tunes and caches. A head has as many queries as columns."""
_CHANGED = FindingKind.INPUT_MODIFIED, FindingKind.OUT_OF_BOUNDS_WRITE

_Calls = Callable[[Subject], Iterable[Outcome | None]]


def _of_memory(setting: Setting) -> Iterator[tuple[str, _Calls]]:
    """Puts the reused input first, so that its first call is the variant's first on this shape."""
    columns = _COLUMNS if setting.takes(_COLUMNS) else 1
    yield "reused", partial(_reused, columns=columns)
    yield "returned", partial(_returned, columns=columns)
    if columns > 1:
        # A row of one column may be its own answer.
        yield "returned/one-column", partial(_returned, columns=1)
        yield "called/no-grad-in-a-model", partial(_called, in_a_model=True)
        yield "called/held-by-nobody", partial(_called, in_a_model=False)


def _placed(subject: Subject, rows: int, columns: int, again: int = 0) -> Placed:
    setting = subject.setting
    return place(ordinary_rows(rows, columns, setting.fmt, setting.seed + again), setting.fmt, PACKED, subject.device)


def _reused(subject: Subject, columns: int) -> Iterator[Outcome | None]:
    """Calls three times on one tensor: no call may change it, and the first, which may tune, must agree with the others."""
    placed, fmt = _placed(subject, _ROWS, columns), subject.setting.fmt

    def again() -> Called:
        return on_host(call_placed(subject, placed), fmt)

    called = [again() for _ in range(3)]
    yield from (stopped(each) for each in called if each.output is None)
    yield from (_changed(each.violations) for each in called)
    first, second, third = called
    message = "the first call on a tensor differs from the second, and later ones agree"
    # A variant that varies by itself is for another probe to find.
    one, other = Repeated(lambda: third, second), Repeated(lambda: first, first)
    found = unlike(one, other, FindingKind.NONDETERMINISTIC, message, fmt)
    yield found if found is not None and Repeated(again, third).repeats(fmt) else None


def _changed(violations: tuple[Violation, ...]) -> Outcome | None:
    """Returns what ends a trial in which a call wrote to its input."""
    found = only(violations, *_CHANGED)
    return Outcome(violations=found) if found else None


def _returned(subject: Subject, columns: int) -> Iterator[Outcome | None]:
    """Checks that the output has memory of its own, and that a later call on other data leaves it unchanged."""
    fmt, kept = subject.setting.fmt, _placed(subject, _ROWS, columns)
    first = call_placed(subject, kept)
    if first.output is None:
        yield stopped(first)
        return
    before, storage = to_bits(first.output, fmt), first.output.untyped_storage().data_ptr()
    if storage == kept.storage.untyped_storage().data_ptr():
        yield _reuse("the output lies in the input's memory")
    for rows in (_ROWS, 1):
        # The same shape, for buffers kept by shape, and fewer rows, for a buffer kept for the largest input.
        later = call_placed(subject, _placed(subject, rows, columns, again=1))
        if later.output is None:
            yield stopped(later)
            return
        message = f"an output changed when the variant was called again, on other data of shape [{rows}, {columns}]"
        changed = differing(FindingKind.OUTPUT_REUSED, before, to_bits(first.output, fmt), fmt, message)
        if changed is not None:
            yield Outcome(violations=(changed,))
        if later.output.untyped_storage().data_ptr() == storage:
            yield _reuse("an output lies in the memory of one that an earlier call returned and that is still in use")


def _reuse(message: str) -> Outcome:
    return Outcome(violations=(Violation(FindingKind.OUTPUT_REUSED, f"{message}; expected memory of its own"),))


def _called(subject: Subject, *, in_a_model: bool) -> Iterator[Outcome | None]:
    """Calls on an input that another operation made without gradients, as in a model, or that the caller holds no more."""
    placed = _placed(subject, _ROWS, _COLUMNS)
    if in_a_model:
        made = placed.view.requires_grad_().clone()
        placed = replace(placed, view=made, storage=made.detach().view(-1))
    elif (inputs := inputs_of(subject.variant.function, placed.view)) is not None:
        subject = subject.calling(given(subject.variant.function, replace(inputs, are_held=False)))
    with torch.no_grad() if in_a_model else nullcontext():
        returned = call_placed(subject, placed)
    yield stopped(returned) if returned.output is None else _changed(returned.violations)


DETERMINISM = TrialTable(_repetitions, _repeated)
UNWRITTEN = TrialTable(_shapes, _on_patterns)
INPUT_UNTOUCHED = TrialTable(_of_memory)
