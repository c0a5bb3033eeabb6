"""One forward call and its backward, in the ways of asking for gradients."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import torch

from oracles.formats import Bits, decode, encode
from softcheck.calling import activity
from softcheck.calling.call import (
    Placed,
    Returned,
    call_on_device,
    describe,
    is_usable,
    place,
    synchronize,
    to_bits,
    to_tensor,
)
from softcheck.calling.memory import refuse_lack
from softcheck.calling.state import preserved
from softcheck.calling.unable import limit_behind
from softcheck.cases.case import PACKED, Layout
from softcheck.contract import FindingKind, Violation
from softcheck.judge.contracts import contract_of
from softcheck.operations.arithmetic import Arithmetic
from softcheck.probes.base import Subject
from softcheck.probes.helpers import call_on, ordinary_rows, prefixed, wrong_values
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRequest:
    """One way of asking for gradients."""

    rows: int
    columns: int
    layout: Layout = PACKED
    is_leaf: bool = True
    """False if the input is the result of another operation, as a hidden layer's is."""
    overwritten: bool = False
    """True if the caller changes the input between forward and backward."""
    answer_overwritten: bool = False
    """True if the caller changes the output between forward and backward, as dropout in place does."""
    masked: bool = False
    """True if the last row is fully masked. Its gradient is 0 where its answer is, and is not judged elsewhere."""
    twice: bool = False
    """True if the backward is called twice for one forward."""
    packed: bool = False
    """True if what the forward saves is copied to packed memory until the backward, as offloading to the host does."""
    threaded: bool = False
    """True if another thread than that of the forward calls the backward."""
    offset: float = 900.0
    """Number that is added to all logits of the third row, and subtracted in every second forward: it cancels in an answer, and not in
    what a backward keeps of it."""


@dataclass(frozen=True, slots=True)
class Forward:
    """One forward call: its input, its output, and an output gradient."""

    bits: Bits
    x: torch.Tensor
    output: torch.Tensor
    returned: Bits
    """The output's bits as they came."""
    words: str
    grad: torch.Tensor
    """A varying output gradient, packed."""
    arithmetic: Arithmetic
    of_own_input: list[torch.Tensor]
    """The gradients that reached what the call took in the matrix's place, behind a mask; none where it took the matrix."""


def forward(subject: Subject, asked: GradientRequest, number: int, words: str) -> Forward | Outcome:
    """Makes a forward call; an outcome if its output is wrong, which other probes report, or carries no gradient.

    The output gradient is a varying one of the output's shape; ``number`` tells the values of one forward from another's.
    """
    fmt, seed = subject.setting.fmt, subject.setting.seed
    shape = (asked.rows, asked.columns)
    bits = ordinary_rows(*shape, fmt, (seed + 2 * number) % 2**32)
    peak, masked = encode(np.array([9.0, -np.inf]), fmt)
    bits[0, -1] = peak
    bits[1, 1::3] = masked
    # A log-sum-exp below 0 too.
    bits[2:3] = encode(decode(bits[2:3], fmt) + (-asked.offset if number % 2 else asked.offset), fmt)
    if asked.masked:
        bits[-1] = masked
    if asked.layout.strides(asked.columns)[0] == 0:
        bits[:] = bits[:1]
    placed = place(bits, fmt, asked.layout, subject.device)
    placed.view.requires_grad_()
    if not asked.is_leaf:
        hidden = placed.view.clone()
        placed = Placed(hidden, hidden.detach().view(-1), fmt)
    function, of_own_input = _watched(subject)
    with nan_filled(), _saved_packed() if asked.packed else nullcontext():
        returned = call_on_device(function, placed, subject.setting.operation)
    if returned.output is None:
        refused = "; ".join(each.message for each in returned.violations)
        return _not_asked(
            subject, FindingKind.RAISED, f"an input that requires one is refused: {refused}", returned.fatal
        )
    if not returned.output.requires_grad and subject.setting.declaration.backward:
        return _not_asked(subject, FindingKind.WRONG_GRADIENT, _NONE_CARRIED, returned.fatal)
    found = to_bits(returned.output, fmt)
    if wrong := wrong_values(subject, bits, found, returned):
        return wrong_with_gradient(subject, bits, asked.layout, wrong)
    if not returned.output.requires_grad or returned.fatal:
        return Outcome(fatal=returned.fatal)
    arithmetic = gradient_arithmetic(subject, returned)
    varying = to_tensor(ordinary_rows(*shape, fmt, (seed + 2 * number + 1) % 2**32), fmt, subject.device)
    varying = varying[:, : returned.output.shape[1]].contiguous().to(returned.output.dtype)
    return Forward(bits, placed.view, returned.output, found, words, varying, arithmetic, of_own_input)


def gradient_arithmetic(subject: Subject, returned: Returned) -> Arithmetic:
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


def _watched(subject: Subject) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Returns the function, and the list of the gradients that will have reached what its calls take in the matrix's place."""
    found: list[torch.Tensor] = []

    def watched(_x: torch.Tensor, operands: dict[str, Any]) -> Mapping[str, Any]:
        own = operands.get("x")
        if isinstance(own, torch.Tensor) and own.requires_grad:
            own.register_hook(found.append)  # type: ignore[no-untyped-call]
        return operands

    return subject.variant.changing(watched).function, found


def _saved_packed() -> AbstractContextManager[object]:
    """Copies each tensor that an operation saves for its backward to packed memory of its own, as offloading does."""
    return torch.autograd.graph.saved_tensors_hooks(
        lambda saved: saved.detach().clone(memory_format=torch.contiguous_format), lambda kept: kept
    )


def wrong_with_gradient(subject: Subject, bits: Bits, layout: Layout, wrong: Sequence[Violation]) -> Outcome:
    """Returns what is wrong of an answer that carries a gradient where one that carries none is right: others report the rest."""
    plain = call_on(subject, bits, layout)
    if plain.output is None or plain.fatal or wrong_values(subject, bits, plain.output, plain):
        return Outcome(fatal=plain.fatal)
    return Outcome(violations=prefixed(wrong, "where an input requires a gradient, and right where none does"))


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


_NONE_CARRIED = (
    "the output carries none, and --backward or backward=True promises one: launch the kernel in the forward of a "
    "torch.autograd.Function that has a backward, or leave the promise out"
)


def _not_asked(subject: Subject, kind: FindingKind, why: str, fatal: bool) -> Outcome:  # noqa: FBT001 - of a private function
    """A finding where gradients are promised; else a trial that is left out."""
    if subject.setting.declaration.backward:
        return Outcome(violations=(Violation(kind, f"gradients: {why}"),), fatal=fatal)
    return Outcome(skipped=f"gradients: {why}", fatal=fatal)


def backward(
    subject: Subject, one: Forward, grad: torch.Tensor, *, keeps: bool, threaded: bool = False
) -> torch.Tensor | Outcome:
    """Calls the backward. Returns the gradient, or an outcome if it raises; ``keeps`` leaves the graph for another call.

    If it is ``threaded``, another thread calls it, as autograd does of its own on a GPU.
    """

    def call() -> torch.Tensor | None:
        with nan_filled():
            (gradient,) = torch.autograd.grad(one.output, one.x, grad, retain_graph=keeps, allow_unused=True)
            synchronize(subject.device)
        return gradient

    try:
        with preserved(), activity.calling():
            if threaded:
                with ThreadPoolExecutor(1) as pool:
                    gradient = pool.submit(call).result()
            else:
                gradient = call()
    except Exception as error:  # noqa: BLE001 - a backward that raises is not silently wrong
        return raised_in_backward(subject, error, f" for the output gradient {one.words}")
    if gradient is None:
        return lost(subject, "the input", is_in_graph=reaches(one.output, one.x))
    # A backward that computes in the saved output returns a tensor that carries a gradient itself.
    return gradient.detach()


_ABSENT = re.compile(
    r"no autograd formula was registered|derivative for .* is not implemented|implement either the backward",
    re.IGNORECASE,
)
"""torch's words for an operation that has no backward."""
_KEEPS_NO_GRAPH = "compiled with non-empty donated buffers"
"""torch.compile's words where a backward writes over what its forward kept, and so can be called only once."""


def raised_in_backward(subject: Subject, error: Exception, words: str = "") -> Outcome:
    """Returns the outcome where the backward of an output that carries a gradient raised ``error``: a finding.

    A backward that says that there is none, by NotImplementedError or in torch's own words, is left out unless gradients are promised;
    so is one that torch.compile made, where it is to keep its graph.
    Raises UninterpretableError and torch.OutOfMemoryError as ``launch`` does.
    """
    refuse_lack(error, subject.device)
    limit = limit_behind(error)
    if limit is not None:
        raise limit from None
    fatal = not is_usable(subject.device)
    said = f"the backward raises {describe(error)}{words}"
    if _KEEPS_NO_GRAPH in str(error):
        return Outcome(skipped="gradients: torch.compile's backward can be called only once for a forward", fatal=fatal)
    if isinstance(error, NotImplementedError) or _ABSENT.search(str(error)):
        return _not_asked(subject, FindingKind.RAISED, said, fatal)
    advice = "expected a gradient, which the output carries; backward=False or --no-backward says that none is promised"
    return Outcome(violations=(Violation(FindingKind.RAISED, f"gradients: {said}; {advice}"),), fatal=fatal)


def lost(subject: Subject, whose: str, *, is_in_graph: bool) -> Outcome:
    """Returns the outcome where no gradient reaches a tensor: a finding where the answer's graph holds it, since it is lost without a word."""
    if not is_in_graph:
        return _not_asked(subject, FindingKind.WRONG_GRADIENT, f"none reaches {whose}, which is detached", fatal=False)
    message = f"the output carries a gradient, and the backward gives {whose} none; expected one"
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))
