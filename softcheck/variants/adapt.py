"""Functions, classes and modules of any signature as variants: callables of one matrix. Imports torch when it is needed."""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from softcheck.calling import launches
from softcheck.calling.operands import Inputs
from softcheck.errors import UsageError
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.declaration import ATTRIBUTE, declaration_of
from softcheck.variants.forms import OPERANDS, PLAIN, Form
from softcheck.variants.meanings import Untried, left_out, of_parameters, untried, with_one_given
from softcheck.variants.recognise import TEMPERATURES, Guess, callable_of, is_triton_kernel, kernel_guess, parameters_of
from softcheck.variants.recognised import Recognised
from softcheck.variants.wrapping import refusal_of, wrapper

if TYPE_CHECKING:
    import torch

_ANY_TARGET = "torch.zeros(rows, dtype=torch.int64, device=x.device)"

SHAPE = (24, 16)
"""Shape of the matrix on which calls are tried; its rows can be split into four dimensions of more than one."""

SMALL = (2, 8)
"""Shape for a function that refuses so many elements."""

_CLOSE = 0.1
"""Largest difference of an element that counts as close: of calls that are wrong, that with most such elements is taken."""

_ULPS, _LEAST = 8, 1e-3
"""Largest error of a right answer, relative to the element and to the mean size: in units of the dtype's epsilon, and for wide dtypes.

Answers of two operations, dimensions, alignments, bases or signs differ by far more in most elements of the matrix.
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of one call on the small matrix."""

    form: Form
    """The call, with the answer's place in what it returned."""
    is_something: bool
    """True if it gave anything at all, such as a tensor of whatever shape."""
    share: float = -1.0
    """Share of elements that are close; less than 0 for what is no answer, such as another shape, or NaN alone."""
    is_right: bool = False
    """True if every element is right, up to what the dtype rounds."""


class Adapted:
    """A function with the call that makes a variant of it.

    A call that is not given is recognised by trials before a run (``variants.recognition``), and told to all copies of the
    function (``told``): no input of a run decides. Until then it is the likeliest by the names of the function's parameters.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        ways: Sequence[Guess] = (),
        *,
        form: Form | None = None,
        refusal: Callable[[], str] = str,
    ) -> None:
        """Takes the calls that may be the function's, the likeliest first, or the one that is, and what is said where none answers."""
        self._wrap(function)
        if hasattr(function, ATTRIBUTE):
            setattr(self, ATTRIBUTE, getattr(function, ATTRIBUTE))
        self.ways = [Guess(form.text)] if form is not None else ways
        """The calls that may be its own, the likeliest first."""
        self.refusal = refusal
        self._form = Form(self.ways[0].text) if form is None else form
        self._is_moved = False
        self._on: tuple[torch.device, torch.dtype] | None = None
        self._fact: Recognised | None = None
        self._inputs: Inputs | None = None
        self.is_given = form is not None
        """True if the call was not recognised but given."""

    def _wrap(self, function: Callable[..., Any]) -> None:
        # Not its attributes: an object's own would mix with these.
        functools.update_wrapper(self, function, updated=())
        self.own = function
        """The function itself."""

    def _of_form(self, form: Form) -> "Adapted":
        found = copy.copy(self)
        found._form = form  # noqa: SLF001 - of the same class
        return found

    @property
    def call(self) -> str:
        """The call; an empty text for the plain one."""
        return "" if self._form.text == PLAIN else self._form.text

    @property
    def names(self) -> frozenset[str]:
        """The names in the call."""
        return self._form.names

    @property
    def operation(self) -> Operation:
        """The operation that gives calls the values beside the matrix."""
        return self._form.operation

    @property
    def others(self) -> tuple[str, ...]:
        """Calls with the same operands in another meaning, where none of these was right on a small trial."""
        return () if self._fact is None else self._fact.others

    def told(self, fact: Recognised, device: "torch.device") -> "Adapted":
        """Takes over the call that trials have shown, on a device, and returns itself."""
        import torch

        if fact.call:
            form = self._form if self.is_given else Form(fact.call).of(self.operation)
            self._form = form.with_part(fact.part, fact.beside)
        self._on = device, getattr(torch, fact.dtype)
        self._fact = fact
        self.move_to(device)
        return self

    def tried(self, text: str, on: "tuple[torch.device, torch.dtype]", shape: tuple[int, int] = SHAPE) -> Tried:
        """Makes one of its calls on the same small matrix as all others, in a dtype, and compares it with the operation. Raises what the call raises."""
        import torch

        form, operation = self._form if self.is_given else Form(text).of(self.operation), self.operation
        device, dtype = on
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device=device, dtype=dtype)
        if operation.arguments is not None:
            x = operation.arguments.trial(x, form.names)
        value, form = form.tried(self.own, x.clone())
        exact = operation.yardstick(x.double())
        if not isinstance(value, torch.Tensor) or not _is_comparable(value, exact) or torch.equal(value.detach(), x):
            return Tried(form, is_something=value is not None)
        # Where NaN is expected, as of a query that sees no key, conventions differ.
        counts = ~exact.isnan()
        found, exact = value.detach().double()[counts], exact[counts]
        if bool(value.isnan().all()) and not form.names & OPERANDS:
            return Tried(form, is_something=True)
        allowed = max(_LEAST, _ULPS * torch.finfo(value.dtype).eps)
        size = exact[exact.isfinite()].abs().mean()
        error = torch.where(found == exact, 0.0, (found - exact).abs())
        is_right = bool((error <= allowed * (exact.abs() + size)).all())
        share = float((error < _CLOSE).double().mean())
        return Tried(form, is_something=True, share=share, is_right=is_right)

    @property
    def untried(self) -> dict[str, tuple[Untried, ...]]:
        """The function's parameters that do nothing in its calls, each with the ways to have it judged; none of a call that was given."""
        if self.is_given:
            return {}
        found = untried(self._parameters, self._form.text, self.names, self.operation)
        return {name: self._right_on_trial(choices) for name, choices in found.items()}

    @property
    def open_options(self) -> dict[str, str]:
        """The parameters that keep their defaults in its calls, by the operation's parameter or "temperature"; none of a call that was given."""
        if self.is_given:
            return {}
        known = {*self.operation.parameters} | ({"temperature"} if "scale" in self.operation.parameters else set())
        found = of_parameters(left_out(self._parameters, self._form.text))
        return {name: parameter for name, parameter in found.items() if name in known}

    @property
    def unjudged(self) -> list[str]:
        """Sentences on the members of what it returns, and the temperatures, that are not judged."""
        call = self.with_temperatures
        told = [f"each row's temperature is 1 in its call; --call '{call}' judges 1 to 1/16 in turn"] if call else []
        return [*_members_left_out(self._form, self.operation), *told]

    @property
    def with_temperatures(self) -> str:
        """The call with temperatures of 1 to 1/16 in turn, where its own gives each row one of 1; else an empty text."""
        if self.is_given or TEMPERATURES not in self.call:
            return ""
        other = "0.5 ** (torch.arange(rows, device=x.device) % 5)"
        scaled = re.sub(r"\bx\b(?=[,)])", f"(x * ({other}).unsqueeze(1)).to(x.dtype)", self.call, count=1)
        return scaled.replace(TEMPERATURES, other)

    @property
    def left_out(self) -> list[inspect.Parameter]:
        """The function's parameters that keep their defaults in the call that was given, or may keep them in any other."""
        return left_out(self._parameters, self._form.text if self.is_given else PLAIN)

    @property
    def at_defaults(self) -> tuple[str, ...]:
        """Names of the function's parameters that keep their defaults in its calls."""
        return tuple(each.name for each in left_out(self._parameters, self._form.text))

    @property
    def _parameters(self) -> list[inspect.Parameter]:
        """The function's parameters, or those of its method ``forward``; none where there is no signature to read."""
        kind = getattr(self.own, "__self__", None)
        signed = kind.forward if inspect.isclass(kind) and hasattr(kind, "forward") else self.own
        return parameters_of(getattr(signed, "forward", signed)) or []

    @property
    def doubtful_defaults(self) -> dict[str, str]:
        """Calls that are right on a small trial, where the call without one of their arguments is not, by its parameter."""
        calls = with_one_given(self._parameters, self.operation, self._form.without_part) if self.others else {}
        return {name: call for name, call in calls.items() if self._is_right(call)}

    def _right_on_trial(self, choices: tuple[Untried, ...]) -> tuple[Untried, ...]:
        """The first of some ways whose call is right on a small trial; all of them if none is, or if they are no calls."""
        right = next((each for each in choices if each.call and self._is_right(each.call)), None)
        return choices if right is None else (right,)

    def _is_right(self, call: str) -> bool:
        import torch

        try:
            with launches.forgotten():
                return self.tried(call, self._on or (torch.device("cpu"), torch.float32)).is_right
        except Exception:  # noqa: BLE001 - a call that is not the function's may raise anything
            return False

    def with_operation(self, operation: Operation) -> "Adapted":
        """Returns a copy whose calls get what another operation gives them; the call itself stays as it is."""
        return self._of_form(self._form.of(operation))

    def inputs(self, x: "torch.Tensor") -> Inputs:
        """Makes what calls on a matrix are given."""
        if hasattr(x, "device"):
            self.move_to(x.device)
        known = self._inputs
        return known if known is not None and x is known.x else self._form.inputs(x)

    def given(self, inputs: Inputs) -> "Adapted":
        """Returns a copy whose calls on the inputs' matrix get these inputs, and whose calls on another get those made of it."""
        found = copy.copy(self)
        found._inputs = inputs  # noqa: SLF001 - of the same class
        return found

    def timed(self) -> "Adapted":
        """Returns a copy whose calls do nothing that takes time beside the function's."""
        return self._of_form(self._form.timed())

    def on(self, function: Callable[..., Any]) -> "Adapted":
        """Returns the same call of another function, such as a copy of the module."""
        found = copy.copy(self)
        found._wrap(function)  # noqa: SLF001 - of the same class
        return found

    def __call__(self, x: "torch.Tensor", **options: Any) -> Any:
        """Returns the answer for a matrix; raises what the function raises."""
        return self._form(self.own, self.inputs(x), options)

    def move_to(self, device: "torch.device") -> None:
        """Moves a module to the device of its first input: its parameters lie on the CPU when it is made."""
        if not self._is_moved:
            self._is_moved = True
            if not inspect.isclass(self.own) and (move := getattr(self.own, "to", None)) is not None:
                move(device)


def _is_comparable(value: "torch.Tensor", exact: "torch.Tensor") -> bool:
    import torch

    is_dense = value.layout == torch.strided and value.is_floating_point()
    return is_dense and not value.is_meta and value.shape == exact.shape and value.device == exact.device


def operands_of(function: object) -> frozenset[str]:
    """The names of what a variant's call takes beside the matrix, such as a mask or targets."""
    return function.names & OPERANDS if isinstance(function, Adapted) else frozenset()


def adapt(
    function: Callable[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Literal[1, 2, 3, 4, 5] = 2,
    out: Literal["first", "last", "kw"] | None = None,
    returns: int | None = None,
    backward: bool | None = None,
) -> Adapted:
    """Makes a variant of a function of another signature.

    ``args`` and ``kwargs`` are passed on behind the input, [rows, columns], which is split into ``dims`` dimensions: [batch,
    heads, rows, columns] for 4, and each row by itself for 1. ``out`` says where the function takes memory for its answer:
    before the input, as its last positional argument, or as the keyword ``out``. ``returns`` is the index of the answer in
    a tuple; if it is left out, the first tensor of the input's shape. ``backward`` promises gradients, as the field of
    ``softcheck.Declaration`` does.

    Raises UsageError for other values of ``dims`` and ``out``.
    """
    if dims not in (1, 2, 3, 4, 5) or out not in (None, "first", "last", "kw"):
        raise UsageError(
            f"adapt: dims is {dims!r} and out is {out!r}; expected 1 to 5, and None, 'first', 'last' or 'kw'"
        )
    constants: dict[str, Any] = {f"argument_{i}": value for i, value in enumerate(args)}
    words = [*(["out"] if out == "first" else []), "x" if dims == 2 else f"x{dims}", *constants]
    words += ["out"] if out == "last" else []
    for name, value in (kwargs or {}).items():
        constants[f"keyword_{name}"] = value
        words.append(f"{name}=keyword_{name}")
    words += ["out=out"] if out == "kw" else []
    text = f"f({', '.join(words)})" + ("" if returns is None else f"[{returns}]")
    made = Adapted(callable_of(function, operation_of())[0], form=Form(text, constants))
    if backward is not None:
        setattr(made, ATTRIBUTE, msgspec.structs.replace(declaration_of(made), backward=backward))
    return made


def adapted(found: Any, spec: str, call: str, operation: Operation) -> Adapted:
    """Returns the callable of one matrix that an object is, by ``call`` or by its signature; raises UsageError, with a wrapper, if none is known."""
    return _adapted(found, spec, call, operation).with_operation(operation)


def _adapted(found: Any, spec: str, call: str, operation: Operation) -> Adapted:
    if isinstance(found, Adapted) and not call:
        return found
    if call:
        form = Form(call)
        is_made = inspect.isclass(found) and not form.makes_instance
        return Adapted(callable_of(found, operation)[0] if is_made else found, form=form)
    if is_triton_kernel(found):
        pasted = wrapper(found, spec)
        refusal = f"variant {spec!r} is a Triton kernel; expected the function that launches it. {pasted}"
        if (guess := kernel_guess(found)) is None:
            raise UsageError(refusal)
        return Adapted(found, [guess], refusal=lambda: refusal)
    try:
        function, ways = callable_of(found, operation)
    except TypeError as error:
        raise UsageError(f"variant {spec!r} is a class that can't be used: {error}. {wrapper(found, spec)}") from None
    refused = functools.partial(refusal_of, found, function, spec, operation)
    if not ways:
        raise UsageError(refused())
    return Adapted(function, ways, refusal=refused)


def _members_left_out(form: Form, operation: Operation) -> list[str]:
    """Returns a sentence on the tensors beside the one that is judged, with an option for one that may be a log-sum-exp; none where there are none."""
    if not form.beside:
        return []
    places = ", ".join(form.beside)
    is_one = len(form.beside) == 1
    found = f"{places} of what it returns {'is' if is_one else 'are'} not judged"
    options = [
        f"if {place} is a log-sum-exp, --operation {name} --call '{call}' judges it"
        for place, is_of_rows in form.beside.items()
        if is_of_rows and (picked := _picking(form, place, operation)) is not None
        for name, call in [picked]
    ]
    other = "a wrapper that returns such a member alone is judged by the --operation that it is the answer of"
    return [f"{found}; {'; '.join(options) or other}"]


def _picking(form: Form, place: str, operation: Operation) -> tuple[str, str] | None:
    """The operation of a log-sum-exp and the call that picks it; None where that takes other operands."""
    # The log-sum-exp of a loss is the same for all targets.
    call = (re.sub(r"\btarget\b(?!\s*=)", _ANY_TARGET, form.without_part) + place).replace("'", '"')
    try:
        Form(call).of(operation_of(operation.sums))
    except UsageError:
        return None
    return None if operation.sums == operation.name else (operation.sums, call)
