"""The tensors of a call, made before it: the matrix, and operands such as masks and targets, which a call must leave as they are."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from softcheck.contract import FindingKind, Violation

if TYPE_CHECKING:
    import torch

_MOST = 2**26
"""Elements of the largest operand of which a copy is kept."""

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a function is given for a matrix."""

    x: "torch.Tensor"
    """The matrix."""
    seen: "torch.Tensor"
    """The tensor that stands in its place, such as numbers behind a mask; most often itself."""
    calls: tuple[Mapping[str, Any], ...]
    """For each call of the function its operands by name, with the matrix, or one of its rows, as ``x``."""
    are_held: bool = True
    """False if calls get views of their operands that nobody else holds, as ``f(y, grads[0])`` does."""
    answers: list[Any] | None = None
    """Everything that the function returns, where that is to be kept."""

    def changed(self, change: "Change") -> "Inputs":
        """Returns them with other operands in each call, ``x`` among them where something stands in the matrix's place."""
        own = {"x"} if self.seen is self.x else set()
        taken = [{name: each for name, each in call.items() if name not in own} for call in self.calls]
        calls = tuple({**call, **change(each)} for call, each in zip(self.calls, taken, strict=True))
        seen = calls[0]["x"] if len(calls) == 1 and not own else self.seen
        return replace(self, calls=calls, seen=seen if seen.shape == self.seen.shape else seen.view(self.seen.shape))

    def noted(self, function: Function) -> Function:
        """Returns a function that keeps what another one returns, if that is asked for."""
        if (found := self.answers) is None:
            return function

        @wraps(function)
        def noting(*args: Any, **named: Any) -> Any:
            found.append(function(*args, **named))
            return found[-1]

        return noting

    def lent(self) -> "list[tuple[str, torch.Tensor, torch.Tensor]]":
        """Returns the operands beside the matrix, those of the last call if there are several, each with a copy of it."""
        found = {name: each for call in self.calls[-1:] for name, each in call.items() if name != "x"}
        tensors = {n: each for n, each in found.items() if hasattr(each, "data_ptr") and each.numel() <= _MOST}
        return [(name, each, each.clone()) for name, each in tensors.items()]


Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns other operands of a call by name."""


@dataclass(frozen=True, slots=True)
class Around:
    """A function as it is called in circumstances, such as a mode."""

    function: Function
    call: "Callable[[Function, torch.Tensor], Any]"

    def __call__(self, x: "torch.Tensor") -> Any:
        """Calls the function in these circumstances."""
        return self.call(self.function, x)

    def inputs(self, x: "torch.Tensor") -> Inputs | None:
        """Makes what the function is given for a matrix; None for one that takes a matrix alone."""
        return inputs_of(self.function, x)

    def given(self, inputs: Inputs) -> "Around":
        """Returns it with a function whose calls on the inputs' matrix get these inputs."""
        return replace(self, function=given(self.function, inputs))


def inputs_of(function: Function, x: "torch.Tensor") -> Inputs | None:
    """Makes what a function is given for a matrix; None for one that takes a matrix alone."""
    make = getattr(function, "inputs", None)
    found: Inputs | None = None if make is None else make(x)
    return found


def given(function: Any, inputs: Inputs | None) -> Function:
    """Returns a function whose calls on the inputs' matrix get these inputs, and whose calls on another get those made of it."""
    found: Function = function if inputs is None else function.given(inputs)
    return found


def with_operands(function: Function, x: "torch.Tensor", change: Change | None) -> Function:
    """Returns a function whose calls on a matrix get other operands; one that takes a matrix alone as it is, and without a change."""
    inputs = None if change is None else inputs_of(function, x)
    return given(function, None if inputs is None or change is None else inputs.changed(change))


def changes(lent: "list[tuple[str, torch.Tensor, torch.Tensor]]") -> Iterator[Violation]:
    """Yields violations for operands that are not what they were when the call began; waits for the device."""
    for name, value, before in lent:
        if (differs := _differs(value, before)).any():
            message = (
                f"{int(differs.sum())} elements of the caller's {name} changed; expected the call to leave it alone"
            )
            yield Violation(FindingKind.INPUT_MODIFIED, message)


def _differs(value: "torch.Tensor", before: "torch.Tensor") -> "torch.Tensor":
    """True where two tensors hold other values; two NaNs are alike, as in the output of a row that has none."""
    return (value != before) & ~((value != value) & (before != before))  # noqa: PLR0124 - true of a NaN, in any dtype
