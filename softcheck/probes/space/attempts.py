"""Calls of a variant in the circumstances of ways, each answer and each gradient judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, Values, decode
from oracles.reference import RowClass, classify
from softcheck.calling import activity
from softcheck.calling.call import (
    TORCH_DTYPES,
    Placed,
    Returned,
    call_on_device,
    synchronize,
    to_bits,
    to_tensor,
)
from softcheck.calling.state import preserved
from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.operations.operation import Operation
from softcheck.operations.ulp import Flags
from softcheck.probes import judged_gradients, operand_gradients
from softcheck.probes.backward import Forward, gradient_arithmetic, lost, raised_in_backward, reaches
from softcheck.probes.base import Subject
from softcheck.probes.diagnose import differ_grossly
from softcheck.probes.helpers import ordinary_rows, wrong_values, wrong_where_it_lies
from softcheck.probes.histories.modes import asks_for_gradient, with_gradient
from softcheck.probes.histories.player import INFERENCE_TENSOR
from softcheck.probes.options import VALUES, with_zeros
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.space.axes import DIMS, GRADIENT, LAYOUT, OFFSET, WaySpace
from softcheck.probes.space.calls import Prepared, WayCalls
from softcheck.probes.space.conditions import Conditions
from softcheck.probes.space.way import Way

_BROKEN = WRONG_KINDS | {
    FindingKind.INPUT_MODIFIED,
    FindingKind.OUT_OF_BOUNDS_WRITE,
    FindingKind.WRONG_GRADIENT,
    FindingKind.OUTPUT_REUSED,
}
"""Kinds that are faults in any circumstances."""
_MODERATE = 1e3
"""Sizes of scores below which the gradients of attention are judged."""


_LARGE = 64.0
"""A factor of some rows of output gradients, as a loss scaler has it."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """What a call in its circumstances showed."""

    violations: tuple[Violation, ...] = ()
    refused: Violation | None = None
    """What a call raised or returned in place of an answer: a fault where the circumstances are promised."""
    fatal: bool = False


class Attempts:
    """Makes the calls of ways of one space."""

    def __init__(self, space: WaySpace, seed: int) -> None:
        self._calls = WayCalls(space, seed)
        self.conditions = Conditions(() if space.is_compiled_by_torch else space.source.files)
        """How conditions of the function's own code came out in its calls."""
        self.varied: set[str] = set()
        """Parameters that had other values than usual in calls that were judged."""

    def make(self, way: Way) -> Attempted:
        """WayCalls the variant in the circumstances of a way, and judges its answer and, if it asks for one, its gradient."""
        subject = self._calls.subject(way)
        if subject is None:
            return Attempted(refused=_refused("these options are not judged together"))
        if subject.setting.has_heads and way.get(GRADIENT):
            return self._of_operands(subject, way)
        bits = self._calls.bits(way)
        prepared = self._calls.prepared(subject, way, bits)
        held = prepared.storage()
        self._calls.make_before(prepared, way, held)
        gradient, mode = way.get(GRADIENT), self._calls.space.mode_of(way)
        x = prepared.view(held)
        leaf = x
        if gradient or asks_for_gradient(mode):
            leaf = with_gradient(x, mode) if asks_for_gradient(mode) else x.requires_grad_()
            x = leaf.clone() if gradient == "of a hidden layer" else leaf
        storage = x.detach().reshape(-1) if gradient == "of a hidden layer" else held
        fmt = subject.setting.fmt
        with self.conditions.watching(way):
            returned = self._called(subject, self._calls.space.called(prepared.function, way), Placed(x, storage, fmt))
        if returned.output is None or returned.fatal:
            return _without_answer(returned)
        self.varied.update(self._calls.space.varied_by(way))
        broken = tuple(v for v in returned.violations if v.kind in _BROKEN)
        output = _as_rows(returned.output, prepared, subject.setting.operation)
        if output is None:
            return Attempted(refused=_refused(f"an answer of the shape {list(returned.output.shape)}"))
        broken += (*self._wrong(subject, prepared, output, returned, way), *_written_beside(prepared))
        if broken or not gradient or not returned.output.requires_grad:
            return Attempted(broken)
        return self._gradient(subject, prepared, leaf, returned, gradient, way)

    def _called(self, subject: Subject, function: Callable[..., Any], placed: Placed) -> Returned:
        with nan_filled():
            return call_on_device(function, placed, subject.setting.operation)

    def _wrong(
        self, subject: Subject, prepared: Prepared, output: torch.Tensor, returned: Returned, way: Way
    ) -> tuple[Violation, ...]:
        """Returns what is wrong of an answer; a hidden row may have NaN or zeros where an option hides it, since nobody declares which."""
        setting, rows = subject.setting, prepared.laid.rows
        wrong, bits = wrong_where_it_lies(subject, rows, output, returned, setting.fmt), to_bits(output, setting.fmt)
        given = {name for name, _ in way.values if name in VALUES}
        if given and FindingKind.NAN_MISMATCH in {violation.kind for violation in wrong}:
            wrong = wrong_values(with_zeros(subject), rows, bits, returned)
        wrong = tuple(violation for violation in wrong if violation.kind in _BROKEN)
        is_laid = any(way.get(axis) for axis in (LAYOUT, OFFSET, DIMS)) and prepared.place == -1
        is_rounded = prepared.place != -1 and returned.of_cpu_library and setting.fmt.width == 16
        if not wrong or not (is_laid or is_rounded):
            return wrong
        x = to_tensor(rows, setting.fmt, subject.device)
        plain = self._called(subject, subject.variant.function, Placed(x, x.view(-1), setting.fmt))
        if plain.output is None:
            return wrong
        other = to_bits(plain.output.reshape(output.shape), setting.fmt)
        is_gross = differ_grossly(*(decode(each, setting.fmt) for each in (bits, other)))
        if is_rounded:
            # torch computes 16-bit answers over other dimensions than the last in 16 bits on a CPU.
            return wrong if is_gross else ()
        also_packed = {violation.kind for violation in wrong_values(subject, rows, other, plain)}
        caused = [violation for violation in wrong if violation.kind not in also_packed]
        if caused and is_gross:
            return (msgspec.structs.replace(caused[0], kind=FindingKind.WRONG_LAYOUT, share=None),)
        return wrong

    def _gradient(
        self, subject: Subject, prepared: Prepared, leaf: torch.Tensor, returned: Returned, asked: str, way: Way
    ) -> Attempted:
        assert returned.output is not None
        fmt, output, bits = subject.setting.fmt, returned.output, prepared.laid.rows
        seed = self._calls.seed(way, "gradient")
        numbers = subject.setting.operation.output_shape(*bits.shape)[1]
        values = to_tensor(ordinary_rows(len(bits), numbers, fmt, seed), fmt, subject.device).to(output.dtype)
        # A backward may leave rows of zeros unwritten, or see one column alone.
        values[2::5], values[3::5, 1:] = 0.0, 0.0
        values[4::5] *= _LARGE
        grad = _laid_out(_like(values, output, prepared), asked)
        if asked == "interleaved":
            self._call_again(prepared, way)

        def backward(given: torch.Tensor) -> Sequence[torch.Tensor | None]:
            if asked == "twice":
                torch.autograd.grad(output, leaf, 0.5 * given, retain_graph=True)
            found: Sequence[torch.Tensor | None] = torch.autograd.grad(output, leaf, given, allow_unused=True)
            return found

        try:
            with preserved(), nan_filled(), activity.calling():
                found = self._calls.space.in_settings(backward, way)(grad)
                synchronize(subject.device)
        except Exception as error:  # noqa: BLE001 - whatever a backward raises is its answer
            return _of_outcome(raised_in_backward(subject, error))
        gradient = found[0]
        if gradient is None:
            return _of_outcome(lost(subject, "the input", is_in_graph=reaches(output, leaf)))
        flat, grads = (
            _as_rows(each.detach(), prepared, subject.setting.operation, like=like)
            for each, like in ((gradient, bits.shape), (grad, values.shape))
        )
        if flat is None or grads is None:
            return Attempted(
                (Violation(FindingKind.WRONG_GRADIENT, f"a gradient of the shape {list(gradient.shape)}"),)
            )
        if flat.dtype != TORCH_DTYPES[fmt.name]:
            return Attempted((Violation(FindingKind.WRONG_GRADIENT, f"a gradient of {flat.dtype}"),))
        kept = np.flatnonzero(_has_gradient(decode(bits, fmt), hides=not subject.setting.has_row_calls))
        if not kept.size:
            return Attempted()
        one = Forward(bits[kept], leaf, output, bits, asked, grads, gradient_arithmetic(subject, returned), [])
        index = torch.from_numpy(kept).to(flat.device)
        wrong = judged_gradients.judged(subject, one, flat[index], grads[index], f"gradient {asked}")
        return Attempted(() if wrong is None else (wrong,))

    def _call_again(self, prepared: Prepared, way: Way) -> None:
        """Makes another forward, whose backward never comes, between a forward and its backward."""
        bits = self._calls.bits(way, "again")
        made = self._calls.prepared(prepared.subject, way, bits)
        self._calls.in_vain(made, made.view(made.storage()).requires_grad_(), way)

    def _of_operands(self, subject: Subject, way: Way) -> Attempted:
        """Judges gradients by queries, keys and values, on rows whose queries all see a key."""
        asked, fmt = way.get(GRADIENT), subject.setting.fmt
        alone = [name for name in operand_gradients.OPERANDS if asked == f"by {name} alone"]
        kind = "" if alone or asked == "varying" else asked
        found: list[Bits] = []
        hides = bool(subject.setting.operation.parameters["masked"])
        for again in ("", "again")[: 2 if kind == "in turn" else 1]:
            bits = self._calls.bits(way, again)
            logits = subject.variant.operation.logits
            assert logits is not None
            classes = classify(logits(decode(bits, fmt), fmt)).reshape(len(bits), -1)
            kept = bits[(classes == RowClass.ORDINARY).all(axis=1) & _is_moderate(decode(bits, fmt), hides=hides)]
            if not len(kept):
                return Attempted()
            found.append(kept)
        outcome = operand_gradients.asked_of(subject, found, alone or operand_gradients.OPERANDS, kind)
        return _of_outcome(outcome)


def _has_gradient(logits: Values, *, hides: bool) -> Flags:
    """Returns the rows of numbers that have a gradient, of which some may be -inf if that ``hides`` them alone, [rows]."""
    found: Flags = np.logical_and.reduce(np.isfinite(logits) | (np.isneginf(logits) & hides), axis=1)
    return found


def _is_moderate(logits: Values, *, hides: bool) -> Flags:
    """Returns the rows whose scores no right backward overflows on, and of which none is hidden unless a mask ``hides`` it, [rows]."""
    largest = np.where(np.isneginf(logits), 0.0 if hides else np.inf, np.abs(logits)).max(axis=1, initial=0.0)
    found: Flags = largest < _MODERATE
    return found


def _refused(said: str) -> Violation:
    return Violation(FindingKind.RAISED, said)


def _of_outcome(outcome: Outcome) -> Attempted:
    broken = tuple(violation for violation in outcome.violations if violation.kind in _BROKEN)
    others = (violation for violation in outcome.violations if violation.kind not in _BROKEN)
    # A trial that is left out refuses nothing that is promised.
    return Attempted(broken, next(others, None), outcome.fatal)


def _without_answer(returned: Returned) -> Attempted:
    if any(INFERENCE_TENSOR in violation.message for violation in returned.violations):
        # Torch lets no workspace that a call in inference mode has made be written to outside it.
        return Attempted()
    broken = tuple(v for v in returned.violations if v.kind in _BROKEN or returned.fatal)
    return Attempted(broken, next(iter(returned.violations), None), returned.fatal)


def _written_beside(prepared: Prepared) -> list[Violation]:
    count = sum(int((~part.isnan()).sum()) for part in prepared.beside)
    message = f"{count} elements beside the memory for the answer are written; expected them to be left alone"
    return [Violation(FindingKind.OUT_OF_BOUNDS_WRITE, message, count=count)] if count else []


def _as_rows(
    tensor: torch.Tensor, prepared: Prepared, operation: Operation, like: tuple[int, ...] | None = None
) -> torch.Tensor | None:
    """Returns an answer as a matrix, [rows, numbers]; None for one of another size."""
    rows = prepared.laid.rows.shape
    due = like or operation.output_shape(*rows)
    if tensor.numel() != due[0] * due[1]:
        return None
    if prepared.place != -1 and tensor.shape == torch.Size(prepared.laid.shape):
        tensor = tensor.movedim(prepared.place, -1)
    return tensor.reshape(due)


def _like(values: torch.Tensor, output: torch.Tensor, prepared: Prepared) -> torch.Tensor:
    """Returns numbers for each row in the shape of an answer."""
    if prepared.place == -1:
        return values.reshape(output.shape)
    shape = [*output.shape]
    shape.append(shape.pop(prepared.place))
    return values.reshape(shape).movedim(-1, prepared.place).contiguous()


def _laid_out(grad: torch.Tensor, asked: str) -> torch.Tensor:
    """Returns an output gradient in the layout that is asked for."""
    if asked == "expanded":
        return grad.flatten()[:1].view([1] * grad.dim()).expand(grad.shape)
    if asked == "one row expanded" and grad.dim() > 1:
        return grad[:1].expand(grad.shape)
    if asked == "transposed" and grad.dim() > 1:
        return grad.transpose(-1, -2).contiguous().transpose(-1, -2)
    if asked == "every second column":
        return torch.stack([grad, torch.full_like(grad, float("nan"))], dim=-1)[..., 0]
    return grad
