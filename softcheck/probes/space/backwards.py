"""The backward calls of ways, and what is wrong of their gradients."""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import msgspec
import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from oracles.formats import Bits, Values, decode, encode
from oracles.reference import RowClass, classify
from softcheck.calling import activity
from softcheck.calling.call import (
    TORCH_DTYPES,
    Placed,
    Returned,
    call_on_device,
    describe,
    is_usable,
    synchronize,
    to_bits,
    to_tensor,
)
from softcheck.calling.memory import refuse_lack
from softcheck.calling.operands import Inputs
from softcheck.calling.state import preserved
from softcheck.calling.unable import limit_behind
from softcheck.contract import WRONG_KINDS, FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.operation import without_layout
from softcheck.operations.ulp import Flags
from softcheck.probes import judged_gradients
from softcheck.probes.base import Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.histories.modes import THREAD as IN_THREAD
from softcheck.probes.histories.modes import in_mode
from softcheck.probes.poison import nan_filled
from softcheck.probes.same_bits import differing
from softcheck.probes.space import axes as ax
from softcheck.probes.space import output_gradients as og
from softcheck.probes.space import own
from softcheck.probes.space.calls import OPERANDS, Prepared, WayCalls, with_leaves
from softcheck.probes.space.strides import EXPANDED
from softcheck.probes.space.way import Way
from softcheck.variants.adapt import Adapted

BROKEN = WRONG_KINDS | {
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
_OF_TOTAL, _OF_ONE = 2.0**-5, 0.1
"""Parts of the sizes of all gradients, and of the least of them, beyond which a sum lacks a term, which no rounding explains."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """The outcome of a call in its circumstances, or of the backward that was asked of it."""

    violations: tuple[Violation, ...] = ()
    refused: Violation | None = None
    """The exception or value that a call gave in place of an answer: a fault where the circumstances are promised."""
    fatal: bool = False
    note: str | None = None
    """A remark on gradients that nobody promises."""

    @property
    def faults(self) -> tuple[Violation, ...]:
        """Its violations; else its refusal, where it has one."""
        return self.violations or (() if self.refused is None else (self.refused,))

    @property
    def fails(self) -> bool:
        """True for anything but a right answer."""
        return bool(self.faults)

    @classmethod
    def by(cls, violation: Violation | None) -> Self | None:
        """Returns what shows a violation; None for none."""
        return None if violation is None else cls((violation,))


@dataclass(frozen=True, slots=True)
class Made:
    """A call whose answer was judged."""

    subject: Subject
    prepared: Prepared
    x: torch.Tensor
    returned: Returned
    bits: Bits
    """The answer as it came."""
    leaves: Mapping[str, torch.Tensor]
    """Tensors that require a gradient, by the operand's name."""
    own: list[torch.Tensor]
    """The gradients that will have reached what the call takes in the matrix's place, behind a mask."""
    whole: Mapping[str, Any]
    """All parts of what was returned, where more than the answer is asked for."""

    @property
    def output(self) -> torch.Tensor:
        """The answer."""
        assert self.returned.output is not None
        return self.returned.output


class Backwards:
    """Asks for the gradients of judged calls in the circumstances of a way."""

    def __init__(self, calls: WayCalls, way: Way) -> None:
        self._calls, self._way = calls, way
        self._asked = way.get(ax.ASKED, og.ONCE)

    def of(self, forwards: Sequence[Made]) -> Attempted:
        """Judges the gradients of forward calls, whose backwards come in reverse order."""
        first = forwards[0]
        special: Mapping[str, Callable[[Made], Attempted | None]] = {
            og.AGAIN: self._again,
            og.FORWARD_MODE: self._in_forward_mode,
            og.ALL_ANSWERS: self._of_all_answers,
            og.BY_BIAS: self._by_bias,
            og.BY_SCALE: self._by_scale,
            **dict.fromkeys(og.ONE_TENSOR, self._of_one_tensor),
        }
        if self._asked in special:
            return ask_gradients(first.subject, partial(special[self._asked], first), is_promised=False) or Attempted()
        grads = [self._output_gradient(made, number) for number, made in enumerate(forwards)]
        if self._asked in {og.INPUT_OVERWRITTEN, og.ANSWER_OVERWRITTEN}:
            with torch.no_grad():
                (first.x if self._asked == og.INPUT_OVERWRITTEN else first.output).zero_()
        kept: list[tuple[torch.Tensor, Bits, str]] = []
        for made, grad in reversed([*zip(forwards, grads, strict=True)]):
            for is_again in (False, True)[: 1 + (self._asked == og.TWICE)]:
                attempted = self._once(made, grad, kept, is_again=is_again)
                if attempted is not None:
                    return attempted
        if self._asked != og.ANSWER_OVERWRITTEN:
            words = "the output that the caller holds changed in the backward"
            kept += [(made.output, made.bits, words) for made in forwards]
        fmt, kind = first.subject.setting.fmt, FindingKind.OUTPUT_REUSED
        changed = (differing(kind, bits, to_bits(held, fmt), fmt, words) for held, bits, words in kept)
        return Attempted.by(next(filter(None, changed), None)) or Attempted()

    def _once(
        self, made: Made, grad: torch.Tensor, kept: list[tuple[torch.Tensor, Bits, str]], *, is_again: bool
    ) -> Attempted | None:
        """Calls one backward, keeps its gradients with their bits, and returns what is wrong or refused."""
        subject, leaves, before = made.subject, made.leaves, grad.clone()
        keeps_graph = self._asked == og.TWICE and not is_again

        def backward(given: torch.Tensor) -> Sequence[torch.Tensor | None]:
            found: Sequence[torch.Tensor | None] = torch.autograd.grad(
                made.output, [*leaves.values()], given, retain_graph=keeps_graph, allow_unused=True
            )
            synchronize(subject.device)
            return found

        called = self._calls.space.in_settings(backward, self._way)
        called = in_mode(called, IN_THREAD) if self._asked == og.THREAD else called
        found: list[torch.Tensor | None] = []
        is_promised = self._asked not in og.MAY_REFUSE
        refused = ask_gradients(subject, lambda: found.extend(called(grad)), is_promised=is_promised)
        if refused is not None:
            return refused
        gradients = {name: each.detach() for name, each in zip(leaves, found, strict=True) if each is not None}
        for name, leaf in leaves.items():
            if name not in gradients:
                # A kernel may take a bias or sinks for constants.
                whose = without_layout(name)
                is_asked = whose in {"x", *OPERANDS} and reaches(made.output, leaf)
                return lost(subject, "the input" if whose == "x" else whose, is_in_graph=is_asked)
        wrong = self._wrong(made, gradients, before)
        if wrong is None and not torch.equal(grad.nan_to_num(), before.nan_to_num()):
            message = "the output gradient, which is the caller's, changed in the backward"
            wrong = Violation(FindingKind.INPUT_MODIFIED, message)
        words = "a gradient that the caller holds changed in a later backward"
        kept += [(each, to_bits(each, subject.setting.fmt), words) for each in gradients.values() if "x" in gradients]
        return Attempted.by(wrong)

    def _wrong(self, made: Made, gradients: Mapping[str, torch.Tensor], grad: torch.Tensor) -> Violation | None:
        subject, prepared, rows = made.subject, made.prepared, made.prepared.laid.rows
        setting = subject.setting
        given = prepared.as_rows(grad, setting.operation.output_shape(*rows.shape))
        assert given is not None
        if "x" not in gradients:
            of_library = made.returned.of_cpu_library
            return judged_gradients.judged_operands(subject, rows, gradients, given, of_cpu_library=of_library)
        found = prepared.as_rows(gradients["x"], rows.shape)
        if found is None or found.dtype != TORCH_DTYPES[setting.fmt.name]:
            said = f"a gradient of the shape {list(gradients['x'].shape)} in {gradients['x'].dtype}"
            return Violation(FindingKind.WRONG_GRADIENT, said)
        if self._way.get(ax.DTYPE):
            # The answer is wider, and the gradient in the input's own dtype.
            values, setting = decode(rows, setting.fmt), replace(setting, dtype=self._calls.space.subject.setting.dtype)
            subject, rows = replace(subject, setting=setting), encode(values, setting.fmt)
            found = found.to(TORCH_DTYPES[setting.fmt.name])
        kept = np.flatnonzero(_has_gradient(decode(rows, setting.fmt), hides=not setting.has_row_calls))
        if not kept.size:
            return None
        index, arithmetic = torch.from_numpy(kept).to(found.device), _arithmetic(subject, made.returned)
        if prepared.layout == EXPANDED:
            is_whole = len(kept) == len(rows) and bool(np.isfinite(decode(rows, setting.fmt)).any())
            return judged_gradients.judged_together(subject, rows, found, given, arithmetic) if is_whole else None
        own = prepared.as_rows(made.own[-1], rows.shape) if made.own else None
        words = f"gradient {self._way.get(ax.GRADIENT, og.VARYING)}"
        behind = None if own is None else own[index]
        return judged_gradients.judged(subject, rows[kept], found[index], given[index], arithmetic, words, behind)

    def _output_gradient(self, made: Made, number: int = 0) -> torch.Tensor:
        """Returns an output gradient in the values and the layout of the way, in the shape of the answer."""
        subject, prepared, output = made.subject, made.prepared, made.output
        fmt, asked = subject.setting.fmt, self._way.get(ax.GRADIENT, og.VARYING)
        rows, numbers = subject.setting.operation.output_shape(*prepared.laid.rows.shape)
        seed = self._calls.seed(self._way, f"gradient {number or ''}".strip())
        values = to_tensor(ordinary_rows(rows, numbers, fmt, seed), fmt, subject.device).to(output.dtype)
        if "x" in made.leaves:
            # A backward may leave rows of zeros unwritten, or see one column alone.
            values[2::5], values[3::5, 1:] = 0.0, 0.0
            values[4::5] *= _LARGE
        values = og.VALUES[asked](values) if asked in og.VALUES else values
        grad = prepared.like(values, output)
        return og.LAYOUTS[asked](grad, prepared.place) if asked in og.LAYOUTS else grad

    def _again(self, made: Made) -> Attempted | None:
        """Differentiates sum w dx by x, dx the gradient for g, w fixed. A backward that refuses it, or leaves no graph, passes.

        A backward written by hand often leaves a graph for g alone. That is a finding where gradients are promised, and a note elsewhere.
        """
        subject, prepared, leaf = made.subject, made.prepared, made.leaves["x"]
        rows, operation = prepared.laid.rows, subject.setting.operation
        weights = to_tensor(self._ordinary(made, "weights"), subject.setting.fmt, subject.device)
        grad = self._output_gradient(made).requires_grad_()
        (first,) = torch.autograd.grad(made.output, leaf, grad, create_graph=True)
        if not first.requires_grad:
            return None
        along = prepared.like(weights, first)
        found: Sequence[torch.Tensor | None] = torch.autograd.grad(
            first, leaf, along, allow_unused=True, retain_graph=True
        )
        second = found[0]
        if second is None:
            # once_differentiable leaves a node that raises, which a gradient by the input alone does not reach.
            torch.autograd.backward(first, along)
            return not_asked(subject, FindingKind.WRONG_GRADIENT, _MISSING)
        as_rows = prepared.as_rows(grad, operation.output_shape(*rows.shape)), prepared.as_rows(second, rows.shape)
        assert as_rows[0] is not None
        assert as_rows[1] is not None
        arithmetic = _arithmetic(subject, made.returned)
        return Attempted.by(judged_gradients.judged_again(subject, rows, as_rows[0], weights, as_rows[1], arithmetic))

    def _in_forward_mode(self, made: Made) -> Attempted | None:
        """Compares the derivative along a tangent with torch's in float64. What has no tangent is no finding."""
        subject, prepared = made.subject, made.prepared
        along, x = self._ordinary(made, "along"), prepared.view(prepared.storage())
        with forward_ad.dual_level(), warnings.catch_warnings():
            # torch loads its own rules by torch.jit.script, of which it warns.
            warnings.simplefilter("ignore", DeprecationWarning)
            tangent = prepared.like(to_tensor(along, subject.setting.fmt, subject.device), x)
            output = prepared.function(forward_ad.make_dual(x, tangent))  # type: ignore[no-untyped-call]
            found = forward_ad.unpack_dual(output).tangent  # type: ignore[no-untyped-call]
        rows = prepared.laid.rows
        found = None if found is None else prepared.as_rows(found, subject.setting.operation.output_shape(*rows.shape))
        if found is None:
            return None
        return Attempted.by(judged_gradients.judged_forward_mode(subject, rows, along, found))

    def _of_all_answers(self, made: Made) -> Attempted | None:
        """Compares the gradient for all answers with the sum of those for each: a derivative is linear in output gradients."""
        parts = {name: part for name, part in made.whole.items() if _carries_numbers(part)}
        grads = {name: self._drawn(part) for name, part in parts.items()}
        leaves = [*made.leaves.values()]
        alone = [_flat([parts[name]], leaves, [grads[name]]) for name in parts]
        together = _flat([*parts.values()], leaves, [*grads.values()])
        is_compared = sum(bool(one.any()) for one in alone) > 1
        words = f"output gradients of {' and '.join(parts)} at once: the gradient"
        return _adds_up(alone, together, words) if is_compared else None

    def _by_bias(self, made: Made) -> Attempted | None:
        """Compares the gradients by the input and by the bias: of softmax(s x + b) that by x is s times that by b."""
        if "bias" not in made.leaves:
            return None
        leaves = [made.leaves["x"], made.leaves["bias"]]
        found: Sequence[torch.Tensor | None] = torch.autograd.grad(
            made.output, leaves, self._drawn(made.output), allow_unused=True
        )
        by_x, by_bias = found
        if by_x is None or by_bias is None:
            return None
        scale = float(made.subject.variant.operation.parameters.get("scale", 1.0))
        words = "the gradient by the bias, times the scale,"
        wrong = _adds_up([by_x.double().flatten()], scale * by_bias.double().flatten(), words)
        return wrong or self._by_bias_alone(made, by_bias)

    def _by_bias_alone(self, made: Made, due: torch.Tensor) -> Attempted | None:
        """Compares the gradient by the bias, where the input requires none, with that where it does."""
        taking, x = made.subject.variant.function, made.prepared.view(made.prepared.storage())
        assert isinstance(taking, Adapted)
        inputs, leaves = with_leaves(taking.inputs(x), ("bias",))
        found = self._asked_anew(made, taking.given(inputs), x, [*leaves.values()])
        if found is None:
            return None
        if not found:
            return lost(made.subject, "the bias, where the input requires none,", is_in_graph=True)
        return _adds_up([due.double().flatten()], found[0], "the gradient by the bias alone")

    def _by_scale(self, made: Made) -> Attempted | None:
        """Compares the gradients by the input and by a scale that is a tensor: of f(s x), sum x dx is s ds."""
        taking, plain = made.subject.variant.function, self._calls.space.subject.variant.function
        assert isinstance(taking, Adapted)
        assert isinstance(plain, Adapted)
        name, x = plain.open_options["scale"], made.prepared.view(made.prepared.storage()).requires_grad_()
        usual = float(made.subject.variant.operation.parameters.get("scale", 1.0))
        scale = torch.tensor(usual, device=x.device, requires_grad=True)
        function = own.replaced(taking, lambda taken: own.with_values(taken, {name: scale}))
        by_x, by_scale = self._asked_anew(made, function, x, [x, scale]) or (None, None)
        if by_x is None or by_scale is None:
            return None
        terms = x.detach().double().flatten() * by_x
        parts = [terms.clamp(min=0).sum()[None], terms.clamp(max=0).sum()[None]]
        return _adds_up(parts, usual * by_scale, "the gradient by the scale, times the scale,")

    def _asked_anew(
        self, made: Made, function: Callable[[torch.Tensor], Any], x: torch.Tensor, leaves: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """Returns the gradients of another call by tensors that it is given, in float64, one after the other.

        None for a call without an answer; an empty list if a gradient does not reach all of them.
        """
        placed = Placed(x, x.detach().view(-1), made.subject.setting.fmt)
        output = call_on_device(function, placed, made.subject.variant.operation).output
        if output is None:
            return None
        if not output.requires_grad:
            return []
        found: Sequence[torch.Tensor | None] = torch.autograd.grad(
            output, [*leaves], self._drawn(output), allow_unused=True
        )
        reached = [each.detach().double().flatten() for each in found if each is not None]
        return reached if len(reached) == len(leaves) else []

    def _of_one_tensor(self, made: Made) -> Attempted | None:
        """Compares the gradient by a tensor that is several operands with the sum of those by copies of it."""
        shared, prepared, taking = og.ONE_TENSOR[self._asked], made.prepared, made.subject.variant.function
        assert isinstance(taking, Adapted)

        def gradients(count: int) -> list[torch.Tensor] | None:
            x = prepared.view(prepared.storage())
            inputs = taking.inputs(x)
            found = {n: each for n, each in inputs.calls[0].items() if without_layout(n) in shared}
            if len({each.shape for each in found.values()}) > 1:
                return None
            first = next(each for name, each in found.items() if without_layout(name) == "k").detach()
            leaves = [first.clone().requires_grad_() for _ in range(count)]
            own = {name: leaves[min(at, count - 1)] for at, name in enumerate(found)}
            return self._asked_anew(made, taking.given(inputs.changed(lambda _: own)), x, leaves)

        copies, one = gradients(len(shared)), gradients(1)
        words = f"where {', '.join(shared)} are one tensor: its gradient"
        return _adds_up(copies, one[0], words) if copies and one else None

    def _ordinary(self, made: Made, name: str) -> Bits:
        """Returns ordinary rows of the input's size, others for each name."""
        rows, columns = made.prepared.laid.rows.shape
        return ordinary_rows(rows, columns, made.subject.setting.fmt, self._calls.seed(self._way, name))

    def _drawn(self, part: torch.Tensor) -> torch.Tensor:
        """Returns an output gradient for a part of what a function returns."""
        generator = torch.Generator().manual_seed(self._calls.seed(self._way, "part"))
        return torch.randn(part.shape, generator=generator).to(part)


def ask_gradients(subject: Subject, ask: Callable[[], Attempted | None], *, is_promised: bool) -> Attempted | None:
    """Asks for gradients; what raises is a finding where that is promised. Returns None where nothing is wrong."""
    try:
        with preserved(), nan_filled(), activity.calling():
            found = ask()
            synchronize(subject.device)
    except Exception as error:  # noqa: BLE001 - a backward that raises is not silently wrong
        refused = raised_in_backward(subject, error)
        return refused if is_promised else Attempted(fatal=refused.fatal)
    return found


_MISSING = (
    "the gradient's own gradient by the input is silently missing: the backward detaches the probabilities; save the "
    "output by save_for_backward, or mark the backward with torch.autograd.function.once_differentiable"
)


def _carries_numbers(part: object) -> bool:
    return isinstance(part, torch.Tensor) and part.requires_grad and part.is_floating_point() and part.numel() > 0


def _flat(outputs: list[torch.Tensor], leaves: list[torch.Tensor], grads: list[torch.Tensor]) -> torch.Tensor:
    """Returns the gradients by all leaves, one behind the other in float64; 0 for a leaf that an output does not depend on."""
    found = torch.autograd.grad(outputs, leaves, grads, retain_graph=True, allow_unused=True)
    flat = [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found, strict=True)]
    return torch.cat([one.detach().double().flatten() for one in flat])


def _adds_up(parts: Sequence[torch.Tensor], whole: torch.Tensor, words: str) -> Attempted | None:
    """Returns a finding where a gradient is further from the sum of its parts than rounding explains."""
    if not all(torch.isfinite(each).all() for each in (*parts, whole)):
        return None
    sizes = [float(one.norm()) for one in parts if one.any()]
    away = float((whole - torch.stack([*parts]).sum(0)).norm())
    if not sizes or away <= max(_OF_TOTAL * sum(sizes), _OF_ONE * min(sizes)):
        return None
    message = (
        f"{words} is {away:.3g} away from the sum of those of its parts, whose sizes are "
        f"{', '.join(f'{size:.3g}' for size in sizes)} (in the Euclidean norm); expected the sum"
    )
    return Attempted.by(Violation(FindingKind.WRONG_GRADIENT, message))


def keeping(function: Callable[[torch.Tensor], Any], asked: str) -> Callable[[torch.Tensor], Any]:
    """Returns the function with what its backward needs made again then, as checkpoints do, or packed, as offloading does."""
    if asked == og.RECOMPUTED:
        return partial(checkpoint, function, use_reentrant=False)
    if asked != og.PACKED:
        return function

    def packed(x: torch.Tensor) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(
            lambda saved: saved.detach().clone(memory_format=torch.contiguous_format), lambda kept: kept
        ):
            return function(x)

    return packed


def watch(inputs: Inputs, found: list[torch.Tensor]) -> None:
    """Keeps the gradients that will have reached what stands in the matrix's place in a list."""
    if inputs.seen is not inputs.x and inputs.seen.requires_grad:
        inputs.seen.register_hook(found.append)  # type: ignore[no-untyped-call]


def names_asked(subject: Subject, asked: str) -> tuple[str, ...]:
    """Returns the operands of heads whose gradients are asked for."""
    known = subject.variant.operation.parameters
    constants = {"bias": bool(known["biased"]), "sinks": math.isfinite(float(known["sink"]))}
    if asked == og.SHARED_BIAS:
        return ("bias",)
    own = tuple(operand.name for operand in subject.variant.operation.operands)
    return og.alone([*own, *constants]).get(asked, own)


def differentiable(subject: Subject, bits: Bits) -> Bits | None:
    """Returns the heads, of which those that no right backward need stand are others again; None where all are such.

    Each of their queries sees a key, or has an answer of 0 where that is declared, and no score is huge.
    """
    setting, operation = subject.setting, subject.variant.operation
    assert operation.logits is not None
    values = decode(bits, setting.fmt)
    classes = classify(operation.logits(values, setting.fmt)).reshape(len(bits), -1)
    is_zero = (classes == RowClass.FULLY_MASKED) & (setting.declaration.fully_masked == "zero")
    hides = bool(setting.operation.parameters["masked"])
    largest = np.where(np.isneginf(values), 0.0 if hides else np.inf, np.abs(values)).max(axis=1, initial=0.0)
    kept = bits[((classes == RowClass.ORDINARY) | is_zero).all(axis=1) & (largest < _MODERATE)]
    return np.resize(kept, bits.shape) if len(kept) else None


def _has_gradient(logits: Values, *, hides: bool) -> Flags:
    """Returns the rows of numbers that have a gradient, of which some may be -inf if that ``hides`` them alone, [rows]."""
    found: Flags = np.logical_and.reduce(np.isfinite(logits) | (np.isneginf(logits) & hides), axis=1)
    return found


def _arithmetic(subject: Subject, returned: Returned) -> Arithmetic:
    """Returns the arithmetic by which the gradient of an answer is judged.

    A library may add in any order; a kernel of the variant's own may rescale a running sum, whether it is declared or not.
    """
    of_library = returned.of_cpu_library
    own = contract_of(subject.setting.declaration.arithmetic, of_cpu_library=of_library)
    arithmetic = msgspec.structs.replace(own, rescales=not of_library or own.rescales)
    is_torchs = of_library and returned.output is not None and is_torchs_own(returned.output)
    if is_torchs and not subject.setting.operation.answers_elements:
        # torch's losses for CPUs are made of its log-softmax, which rounds differences and exponentials to 16 bits.
        arithmetic = msgspec.structs.replace(arithmetic, intermediate="input")
    return arithmetic


def is_torchs_own(output: torch.Tensor) -> bool:
    """Returns True if torch has the backward of each operation behind an output, and no ``torch.autograd.Function`` has one."""
    return not any(isinstance(node, torch.autograd.function.BackwardCFunction) for node in _graph_of(output))


def reaches(output: torch.Tensor, x: torch.Tensor) -> bool:
    """Returns True if the graph behind an output holds a tensor that requires a gradient."""
    return any(node is x.grad_fn if x.grad_fn else getattr(node, "variable", None) is x for node in _graph_of(output))


def _graph_of(output: torch.Tensor) -> Iterator[Any]:
    """Yields the operations behind an output, each once."""
    seen: set[Any] = set()
    left: list[Any] = [output.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            left += [before for before, _ in node.next_functions]


def not_asked(subject: Subject, kind: FindingKind, why: str, *, fatal: bool = False) -> Attempted:
    """A finding where gradients are promised; else a note."""
    said = f"gradients: {why}"
    if not subject.setting.declaration.backward:
        return Attempted(note=said, fatal=fatal)
    return _of_kind(kind, said, fatal=fatal)


def _of_kind(kind: FindingKind, said: str, *, fatal: bool) -> Attempted:
    """Returns a fault of any circumstances, or what is one where these are promised."""
    violation = Violation(kind, said)
    return Attempted((violation,) if kind in BROKEN else (), None if kind in BROKEN else violation, fatal)


_ABSENT = re.compile(
    r"no autograd formula was registered|derivative for .* is not implemented|implement either the backward",
    re.IGNORECASE,
)
"""torch's words for an operation that has no backward."""


def raised_in_backward(subject: Subject, error: Exception) -> Attempted:
    """Returns the outcome where the backward of an output that carries a gradient raised ``error``: a finding.

    A backward that says that there is none, by NotImplementedError or in torch's own words, is a note unless gradients are promised.
    Raises UninterpretableError and torch.OutOfMemoryError as ``call`` does.
    """
    refuse_lack(error, subject.device)
    limit = limit_behind(error)
    if limit is not None:
        raise limit from None
    fatal = not is_usable(subject.device)
    said = f"the backward raises {describe(error)}"
    if isinstance(error, NotImplementedError) or _ABSENT.search(str(error)):
        return not_asked(subject, FindingKind.RAISED, said, fatal=fatal)
    advice = "expected a gradient, which the output carries; backward=False or --no-backward says that none is promised"
    return _of_kind(FindingKind.RAISED, f"gradients: {said}; {advice}", fatal=fatal)


def lost(subject: Subject, whose: str, *, is_in_graph: bool) -> Attempted:
    """Returns the outcome where no gradient reaches a tensor: a finding where the answer's graph holds it, since it is lost without a word."""
    if not is_in_graph:
        return not_asked(subject, FindingKind.WRONG_GRADIENT, f"none reaches {whose}, which is detached")
    message = f"the output carries a gradient, and the backward gives {whose} none; expected one"
    return Attempted((Violation(FindingKind.WRONG_GRADIENT, message),))
