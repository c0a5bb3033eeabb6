"""One operand of a call at strides of its own, while the others lie as they were, and two that share one stride; heads as a projection leaves them; and one mask for all.

A wrapper that passes the strides of one operand for another's is right as long as both are laid out alike. Queries, keys and values
often are parts of one tensor, [batch, length, heads, head_dim], in which all heads of a place lie one behind the other. Where a mask is
the same for several rows, heads or batches, callers pass it once, in a dimension of size 1, or with a stride of 0. Nobody
promises to take a mask of size 1, so that an exception is no finding there, and a wrong answer is. Memory that a function
takes for its answer, as ``out=``, may have strides of its own too.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, encode
from softcheck.calling.call import place
from softcheck.cases.case import PACKED
from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.operations.operation import Operation, without_layout
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe, ordinary_rows, parameters_of, prefixed
from softcheck.probes.judged import Judged, judged, judged_after
from softcheck.probes.operand_moves import (
    HEADS,
    HEADS_DIMS,
    LAYOUTS,
    OFFSET,
    Lay,
    Move,
    every_second,
    first_half,
    packed_all,
    transposed,
    with_equal_pitches,
    with_one,
)
from softcheck.probes.outcome import Outcome
from softcheck.variants.adapt import Adapted, operands_of

_ROWS, _HEADS, _COLUMNS = 6, 3, 40
"""Two batches of three heads each."""
_MASKS = frozenset({"mask", "keep", "bias"})
_MASKS_SHARED, _EQUAL_PITCHES = "shared/masks", "equal-pitches"
_PITCHES = "with {} every second column and {} the first columns of equally wide tensors"

PROPERTY = "shared_masks"
"""True if one mask may stand for several rows or heads."""

_OF_HEADS, _EXPANDED = "one for all heads", "one expanded to all"
_EXPANDED_HEADS, _EXPANDED_QUERIES = "one for all heads, expanded", "one for all heads and queries, expanded"
_FULL = frozenset({_EXPANDED, _EXPANDED_HEADS, _EXPANDED_QUERIES})
"""Ways in which a mask has all dimensions in full, some of them with a stride of 0."""

_SHARED: Mapping[str, Move] = {
    _OF_HEADS: lambda mask: mask[:, :1] if mask.dim() > 2 else None,
    _EXPANDED_HEADS: lambda mask: mask[:, :1] if mask.dim() > 2 else None,
    _EXPANDED_QUERIES: lambda mask: mask[:, :1, :1] if mask.dim() == HEADS_DIMS else None,
    "one for all": lambda mask: mask[(slice(1),) * max(1, mask.dim() - 2)],
    "one without leading dimensions": lambda mask: mask[(0,) * max(1, mask.dim() - 2)],
    _EXPANDED: lambda mask: mask[(slice(1),) * max(1, mask.dim() - 2)],
}
"""Ways to pass a mask that is the same for several rows; the last dimension of softmax's, and the last two of attention's, are its own."""

_OUTS = ("out", "output")
"""Parameters for the answer's memory."""
_PACKED, _SLICE, _REFUSED = "packed", "column-slice", "refused"
_BESIDE = 4, 9
"""Columns before and behind those that are given for the answer, in a wider tensor."""


class OperandLayouts(GroupedProbe):
    """Calls with one operand laid out otherwise than the others, and with one mask for several rows."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns a trial for each layout, in which each operand has it by itself, and one for masks."""
        operation, is_strided = setting.operation, "strided" in setting.declaration.layouts
        if not setting.takes(_COLUMNS):
            return []
        outs = (_PACKED, _REFUSED, _SLICE) if is_strided else (_PACKED, _REFUSED)
        given = [Trial(f"out/{memory}", memory) for memory in outs] if operation.answers_elements else []
        if operation.arguments is None or operation.matrix is not None:
            return given
        moves = {**OFFSET, **(LAYOUTS if is_strided else {})}
        found = [*given, *(Trial(f"layout/{name}", move) for name, move in moves.items())]
        if is_strided and not setting.has_heads:
            found.append(Trial(f"layout/{_EQUAL_PITCHES}", None))
        if is_strided and {"q", "k", "v"} <= {operand.name for operand in operation.operands}:
            found += [Trial(f"heads/{name}", lay) for name, lay in HEADS.items()]
        masks = _MASKS & {operand.name for operand in operation.arguments.operands}
        return [*found, *([Trial(_MASKS_SHARED, None)] if masks else [])]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges a call for each operand that has rows, or for each way to share a mask."""
        operation = subject.setting.operation
        bits = _rows(subject.setting)
        if isinstance(trial.parameters, str):
            # Rows that end in the middle of a vector.
            return _with_out(subject, bits[:, : _COLUMNS - 3], trial.parameters)
        # The first call tells how the function is called.
        before = judged(subject, bits)
        names = [
            name
            for name in sorted(operands_of(subject.variant.function))
            if without_layout(name) in _of_rows(operation)
        ]
        if before.output is None or before.fatal or not names or not isinstance(subject.variant.function, Adapted):
            return Outcome(fatal=before.fatal)
        known = frozenset(violation.kind for violation in before.violations)
        if trial.label == _MASKS_SHARED:
            return _with_shared_masks(subject, [name for name in names if name in _MASKS], known)
        for message, lay, move in _ways(trial, names, has_input=operation.operands[0].name == "x"):
            after = _call(subject, bits, lay, move)
            if after is None:
                continue
            caused = [violation for violation in after.violations if violation.kind not in known]
            if caused or after.fatal:
                return Outcome(violations=prefixed(caused, message), fatal=after.fatal)
        return Outcome()


PROBE = OperandLayouts()


def _ways(trial: Trial, names: Sequence[str], *, has_input: bool) -> Iterator[tuple[str, Lay, Move | None]]:
    """Yields the calls of a trial on layouts: in words, with the layout of the operands, and with that of an input that is moved."""
    group, _, words = trial.label.rpartition("/")
    if group == "heads":
        yield f"with queries, keys and values {words.replace('-', ' ')}", trial.parameters, None
        return
    if trial.parameters is None:
        for stepped, halved in permutations(names, 2):
            yield _PITCHES.format(stepped, halved), partial(with_equal_pitches, stepped, halved), None
        for name in names if has_input else ():
            yield _PITCHES.format("the input", name), partial(with_one, name, first_half), every_second
            yield _PITCHES.format(name, "the input"), partial(with_one, name, every_second), first_half
        return
    for name in names:
        # The last dimension of a head is contiguous, and that of its mask need not be.
        move = transposed if words == "transposed" and name in _MASKS else trial.parameters
        yield f"with {name} {words} and everything else packed", partial(with_one, name, move), None
    if has_input:
        yield f"with the input {words} and everything else packed", packed_all, trial.parameters


def _of_rows(operation: Operation) -> frozenset[str]:
    """Names of the operands that have rows: weights and sinks are a module's own, and packed."""
    optional = () if operation.arguments is None else operation.arguments.operands
    return frozenset(operand.name for operand in (*operation.operands, *optional) if "rows" in operand.dims)


def _rows(setting: Setting, of_one_mask: int = _ROWS) -> Bits:
    """Logits of which every third column is hidden, another one in each ``of_one_mask`` rows, if the operation takes masks."""
    bits = ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    arguments, known = setting.operation.arguments, setting.operation.parameters
    optional = () if arguments is None else arguments.operands
    hides = {operand.name for operand in optional} & _MASKS and known.get("masked", 1.0)
    if hides:
        rows, columns = np.indices(bits.shape)
        # What a mask hides from single queries depends on the first logit.
        bits[:, 0] = bits[np.arange(_ROWS) // of_one_mask * of_one_mask, 0]
        bits[(columns + rows // of_one_mask) % 3 == 0] = encode(np.array([-np.inf]), setting.fmt)[0]
    return bits


def _call(subject: Subject, bits: Bits, lay: Lay, move: Move | None = None) -> Judged | None:
    """Judges a call whose operands are laid out, and whose input is moved where ``move`` says so; None if they can't be."""
    function, operation = subject.variant.function, subject.variant.operation
    assert isinstance(function, Adapted)
    assert operation.arguments is not None
    make, is_moved = operation.arguments.make, True

    def made(x: torch.Tensor, names: frozenset[str]) -> Mapping[str, Any]:
        nonlocal is_moved
        given = make(x, names)
        found = lay(given)
        is_moved &= found is not None
        return given if found is None else found

    changed = function.with_operation(operation.making(made))

    def called(x: torch.Tensor) -> Any:
        nonlocal is_moved
        placed = None if move is None else move(x)
        is_moved &= placed is not None
        return changed(x if placed is None else placed)

    after = judged(subject, bits, changed if move is None else called)
    return after if is_moved else None


def _with_out(subject: Subject, bits: Bits, memory: str) -> Outcome:
    """Judges memory that a call is given for its answer, where a function takes some and need not."""
    function = subject.variant.function
    if isinstance(function, Adapted) and re.search(r"\bout\b", function.call):
        # Its call gives memory of its own, in place of what is given here.
        function = inspect.unwrap(function)
    parameters = parameters_of(function)
    name = next((name for name in _OUTS if name in parameters and parameters[name].default is None), None)
    if name is None or judged(subject, bits).violations:
        return Outcome()
    if memory == _REFUSED:
        x = place(bits, subject.setting.fmt, PACKED, subject.device).view
        after = judged_after(subject, bits, partial(function, x, **{name: torch.empty_like(x[:, 1:])}))
        words = f"after a call whose memory for the answer, {name}=, has a column too few, and right before it"
        return Outcome(violations=prefixed(after.violations, words), fatal=after.fatal)
    before, behind = _BESIDE if memory == _SLICE else (0, 0)
    beside: list[torch.Tensor] = []

    def called(x: torch.Tensor) -> torch.Tensor:
        whole = x.new_full((x.shape[0], before + x.shape[1] + behind), float("nan"))
        out = whole[:, before : before + x.shape[1]]
        beside.extend((whole[:, :before], whole[:, before + x.shape[1] :]))
        function(x, **{name: out})
        return out

    after = judged(subject, bits, called)
    caused = list(after.violations) if after.fatal else [v for v in after.violations if v.kind in WRONG_KINDS]
    written = 0 if after.fatal else sum(int((~part.isnan()).sum()) for part in beside)
    if written:
        message = f"{written} elements beside a slice of columns are written; expected them to be left alone"
        caused.append(Violation(FindingKind.OUT_OF_BOUNDS_WRITE, message, count=written))
    words = f"in the memory given as {name}=, {memory}, and right without it"
    return Outcome(violations=prefixed(caused, words), fatal=after.fatal)


def _with_shared_masks(subject: Subject, masks: Sequence[str], known: frozenset[FindingKind]) -> Outcome:
    """Judges each way to pass one mask for several rows.

    Wrong answers in every way say that the function takes no such mask, and are a property. If it takes one in some way, they are
    findings in the other ways.
    """
    right: list[str] = []
    wrong: list[Violation] = []
    for name in masks:
        for words, share in _SHARED.items():
            is_of_batches = words in {_OF_HEADS, _EXPANDED_HEADS, _EXPANDED_QUERIES}
            of_one_mask = _HEADS if is_of_batches else _ROWS
            bits = _rows(subject.setting, of_one_mask)
            if subject.setting.operation.parameters.get("biased"):
                # A bias with numbers is drawn from a row, so that equal ones belong to equal rows.
                bits = bits[np.arange(_ROWS) // of_one_mask * of_one_mask]
            after = _call(subject, bits, partial(with_one, name, partial(_shared, share, expands=words in _FULL)))
            if after is None:
                continue
            circumstances = f"with {name} {words}, in place of as many"
            if after.fatal:
                return Outcome(violations=prefixed(after.violations, circumstances), fatal=True)
            wrong += prefixed([v for v in after.violations if v.kind in WRONG_KINDS - known], circumstances)
            right += [words] if after.output is not None and not after.violations else []
    takes = any(words not in _FULL for words in right)
    return Outcome(
        violations=tuple(wrong) if takes else (), properties={PROPERTY: takes and not wrong} if right or wrong else {}
    )


def _shared(share: Move, mask: torch.Tensor, *, expands: bool) -> torch.Tensor | None:
    """The first of equal masks; None where they are not equal. What follows it in memory hides what it does not hide."""
    found = share(mask)
    if found is None or not torch.equal(found.broadcast_to(mask.shape), mask):
        return None
    others = (
        ~mask if mask.dtype == torch.bool else torch.where(mask == float("-inf"), 0.0, float("-inf")).to(mask.dtype)
    )
    place = share(others)
    assert place is not None
    place.copy_(found)
    return place.expand_as(mask) if expands else place
