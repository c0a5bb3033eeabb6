"""Calls of a variant in the circumstances of ways, each answer and each gradient judged."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, decode
from softcheck.calling.call import Placed, Returned, to_bits, to_tensor
from softcheck.calling.operands import Inputs, given, inputs_of
from softcheck.calling.state import preserved
from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_placed, wrong_values, wrong_where_it_lies
from softcheck.probes.histories.modes import asks_for_gradient, with_gradient
from softcheck.probes.histories.player import INFERENCE_TENSOR
from softcheck.probes.judged import differ_grossly
from softcheck.probes.operand_moves import OF_ONE_PROMPT, TAKEN_ONCE, TOGETHER
from softcheck.probes.options import VALUES, with_zeros
from softcheck.probes.space import axes as ax
from softcheck.probes.space import output_gradients as og
from softcheck.probes.space.axes import WaySpace
from softcheck.probes.space.backwards import (
    BROKEN,
    Attempted,
    Backwards,
    Made,
    differentiable,
    keeping,
    names_asked,
    watch,
)
from softcheck.probes.space.calls import OPERANDS, Prepared, WayCalls, with_leaves
from softcheck.probes.space.conditions import Conditions
from softcheck.probes.space.way import Way
from softcheck.variants.forms import parts_of

_LEFT_OUT = ("OutOfResources:", "CompileTimeAssertionFailure:", "PTXASError:")
"""Exceptions for which Triton's tuning leaves a configuration out: it asks for more than this device has, and never runs."""


class Attempts:
    """Makes the calls of ways of one space."""

    def __init__(self, space: WaySpace, seed: int) -> None:
        self._calls = WayCalls(space, seed)
        self.conditions = Conditions(() if space.is_compiled_by_torch else space.source.files)
        """Conditions of the function's own code, as they came out in its calls."""
        self.varied: set[str] = set()
        """Parameters that had other values than usual in calls that were judged."""
        self.notes: list[str] = []
        """Remarks on gradients that nobody promises."""
        self.shared_masks: list[bool] = []
        """For each call with one mask for several rows whether its answer was right."""

    def make(self, way: Way) -> Attempted:
        """Calls the variant in the circumstances of a way, and judges its answer and, if it asks for one, its gradient."""
        with self._calls.in_matrices(way):
            found = self._of(way)
        if way.get(ax.SHARED_MASK) in TAKEN_ONCE and not found.refused:
            self.shared_masks.append(not found.violations)
        return found

    def _of(self, way: Way) -> Attempted:
        asked, is_asked = way.get(ax.ASKED), asks_for_backward(way)
        # Two batches of three heads share a bias, a mask or keys.
        is_shared = asked == og.SHARED_BIAS or way.get(ax.OPERAND + TOGETHER) == OF_ONE_PROMPT
        is_shared |= bool(way.get(ax.SHARED_MASK)) and self._calls.space.subject.setting.has_heads
        way = way.having(ax.ROWS, 6) if is_shared else way
        subject = self._calls.subject(way)
        if subject is None:
            return Attempted(refused=_refused("these options are not judged together"))
        forwards: list[Made] = []
        for again in ("", "again", "once more")[: 3 if asked == og.IN_TURN else 1]:
            made = self._made(subject, way, again)
            if isinstance(made, Attempted):
                return replace(made, violations=(), refused=None) if asked in og.UNPROMISED and not made.fatal else made
            forwards.append(made)
        if not is_asked:
            return Attempted()
        if not forwards[0].output.requires_grad:
            return self._without_gradient(subject, way)
        if asked == og.BETWEEN:
            self._calls.make_between(forwards[0].prepared, way)
        found = Backwards(self._calls, way).of(forwards)
        self.notes += [] if found.note is None else [found.note]
        return replace(found, refused=None) if asked in og.UNPROMISED else found

    def _made(self, subject: Subject, way: Way, again: str) -> Made | Attempted:
        """Makes a call; returns what is wrong of it, or refused, in place of a right one."""
        setting, operation = subject.setting, subject.setting.operation
        is_asked, asked = asks_for_backward(way), way.get(ax.ASKED)
        bits: Bits | None = self._calls.bits(way, again)
        assert bits is not None
        if is_asked and setting.has_heads:
            bits = differentiable(subject, bits)
            if bits is None:
                return Attempted()
            bits = np.concatenate([bits[: len(bits) // 2]] * 2) if asked == og.SHARED_BIAS else bits
        prepared = self._calls.prepared(subject, way, bits)
        held = prepared.storage()
        prepared = prepared if again else self._calls.make_before(prepared, way, held)
        x, leaves = self._input(prepared, way, held)
        storage = x.detach().reshape(-1) if asked == og.HIDDEN_LAYER else held
        try:
            function = prepared.at(x)
        except ValueError as error:
            return Attempted(refused=_refused(str(error)))
        own, whole = list[torch.Tensor](), list[Any]()
        if (inputs := inputs_of(function, x)) is not None:
            if is_asked:
                inputs, of_operands = self._with_leaves(subject, inputs, asked)
                leaves = {**of_operands, **leaves}
                watch(inputs, own)
            function = given(function, replace(inputs, answers=whole))
        function = keeping(self._calls.space.called(function, way), asked)
        with self.conditions.watching(way):
            returned = call_placed(subject.calling(function), Placed(x, storage, setting.fmt))
        if returned.output is None or returned.fatal:
            is_left_out = way.get(ax.CONFIGURATION) and returned.violations[0].message.startswith(_LEFT_OUT)
            return Attempted() if is_left_out and not returned.fatal else _without_answer(returned)
        self.varied.update(self._calls.space.varied_by(way))
        broken = tuple(v for v in returned.violations if v.kind in BROKEN)
        output = prepared.as_rows(returned.output, operation.output_shape(*prepared.laid.rows.shape))
        if output is None:
            return Attempted(refused=_refused(f"an answer of the shape {list(returned.output.shape)}"))
        broken += (*self._wrong(subject, prepared, output, returned, way), *_written_beside(prepared))
        broken = broken or self._calls.make_after(prepared, way, returned.output)
        if broken:
            return Attempted(broken)
        parts = parts_of(whole[-1]) if whole and asked == og.ALL_ANSWERS else {}
        kept = to_bits(returned.output, setting.fmt) if is_asked else bits
        return Made(subject, prepared, x, returned, kept, leaves, own, parts)

    def _input(self, prepared: Prepared, way: Way, held: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Returns the input, and as ``x`` the tensor whose gradient is asked for, if it is the input's."""
        x, mode = prepared.view(held), self._calls.space.mode_of(way)
        is_asked, asked = asks_for_backward(way), way.get(ax.ASKED)
        if (is_asked and prepared.subject.setting.has_heads) or not (is_asked or asks_for_gradient(mode)):
            return x, {}
        leaf = with_gradient(x, mode) if asks_for_gradient(mode) else x.requires_grad_()
        return leaf.clone() if asked == og.HIDDEN_LAYER else leaf, {"x": leaf}

    @staticmethod
    def _with_leaves(subject: Subject, inputs: Inputs, asked: str) -> tuple[Inputs, dict[str, torch.Tensor]]:
        """Returns what a call is given with operands that require a gradient, where theirs are asked for, and these operands."""
        if subject.setting.has_heads:
            return with_leaves(inputs, names_asked(subject, asked), is_shared=asked == og.SHARED_BIAS)
        return with_leaves(inputs, ("bias",)) if asked == og.BY_BIAS else (inputs, {})

    def _without_gradient(self, subject: Subject, way: Way) -> Attempted:
        """Returns what is wrong of an answer without a gradient, where that of a plain call has a backward of the variant's own.

        A path that leaves a width to torch carries one that nobody promises elsewhere, and an option need not have one.
        """
        space, asked = self._calls.space, way.get(ax.ASKED)
        options = {axis.name for axis in space.axes if not axis.is_promised}
        is_due = space.has_own_backward or subject.setting.declaration.backward or asked == og.HIDDEN_LAYER
        is_due |= asked in og.alone(OPERANDS)
        if not is_due or any(name in options for name, _ in way.values):
            return Attempted()
        message = (
            "the answer carries no gradient, and that of a plain call does; expected one wherever the input requires it"
        )
        return Attempted((Violation(FindingKind.WRONG_GRADIENT, message),))

    def _wrong(
        self, subject: Subject, prepared: Prepared, output: torch.Tensor, returned: Returned, way: Way
    ) -> tuple[Violation, ...]:
        """Returns what is wrong of an answer; a hidden row may have NaN or zeros where an option hides it, since nobody declares which."""
        setting, rows = subject.setting, prepared.laid.rows
        wrong, bits = wrong_where_it_lies(subject, rows, output, returned, setting.fmt), to_bits(output, setting.fmt)
        given = {name for name, _ in way.values if name in VALUES or name in (ax.CALL, ax.SHARED_MASK)}
        if given and FindingKind.NAN_MISMATCH in {violation.kind for violation in wrong}:
            wrong = wrong_values(with_zeros(subject), rows, bits, returned)
        wrong = tuple(violation for violation in wrong if violation.kind in BROKEN)
        is_over = ax.OVER in way.get(ax.DIMS)
        if not wrong or not (is_over or any(way.get(axis) for axis in (ax.LAYOUT, ax.OFFSET, ax.DIMS))):
            return wrong
        x, plain = to_tensor(rows, setting.fmt, subject.device), None
        with suppress(ValueError):
            function = prepared.at(x, subject.variant.function)
            plain = call_placed(subject.calling(function), Placed(x, x.view(-1), setting.fmt))
        if plain is None or plain.output is None:
            return wrong
        other = to_bits(plain.output.reshape(output.shape), setting.fmt)
        is_gross = differ_grossly(*(decode(each, setting.fmt) for each in (bits, other)))
        if is_over:
            # torch computes 16-bit answers over other dimensions than the last in 16 bits on a CPU.
            is_rounded = returned.of_cpu_library and setting.fmt.width == 16
            if is_gross and _is_ignored(prepared, output):
                option = str(self._calls.space.dim_parameter)
                told = f"the answers are those of {option}=-1"
                return (wrong[0].told(told, option=option, answers_of="the last dimension"),)
            return () if is_rounded and not is_gross else wrong
        also_packed = {violation.kind for violation in wrong_values(subject, rows, other, plain)}
        caused = [violation for violation in wrong if violation.kind not in also_packed]
        if caused and is_gross:
            return (msgspec.structs.replace(caused[0], kind=FindingKind.WRONG_LAYOUT, share=None),)
        return wrong


def asks_for_backward(way: Way) -> bool:
    """True if a way asks for a gradient."""
    return bool(way.get(ax.GRADIENT) or way.get(ax.ASKED))


def _refused(said: str) -> Violation:
    return Violation(FindingKind.RAISED, said)


def _is_ignored(prepared: Prepared, output: torch.Tensor) -> bool:
    """True if the answers over another dimension are those over the last one."""
    if prepared.over_last is None or len(prepared.laid.shape) == 1:
        return False
    with preserved(), suppress(Exception), torch.no_grad():
        answer = prepared.as_rows(prepared.over_last(prepared.view(prepared.storage())), (len(output), output.shape[1]))
        return answer is not None and torch.equal(answer, output)
    return False


def _without_answer(returned: Returned) -> Attempted:
    if any(INFERENCE_TENSOR in violation.message for violation in returned.violations):
        # Torch lets no workspace that a call in inference mode has made be written to outside it.
        return Attempted()
    broken = tuple(v for v in returned.violations if v.kind in BROKEN or returned.fatal)
    return Attempted(broken, next(iter(returned.violations), None), returned.fatal)


def _written_beside(prepared: Prepared) -> list[Violation]:
    count = sum(int((~part.isnan()).sum()) for part in prepared.beside)
    message = f"{count} elements beside the memory for the answer are written; expected them to be left alone"
    return [Violation(FindingKind.OUT_OF_BOUNDS_WRITE, message, count=count)] if count else []
