"""Functions, classes and modules of any signature as variants: callables of one matrix. Imports torch when it is needed."""

import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from softcheck.calling import launches
from softcheck.errors import NotCalledError, UsageError
from softcheck.operations.operation import Operation
from softcheck.operations.strides import shares_memory
from softcheck.variants.callables import callable_of, is_triton_kernel
from softcheck.variants.declaration import ATTRIBUTE, declaration_of
from softcheck.variants.defaults import left_out, of_parameters, with_one_given
from softcheck.variants.forms import OPERANDS, PLAIN, Form, names_in
from softcheck.variants.meanings import Untried, untried
from softcheck.variants.recognise import Guess, Vocabulary, kernel_guess, parameters_of
from softcheck.variants.trial import is_over_rows, random_matrix, share_right, with_answer
from softcheck.variants.unjudged import members_left_out, temperatures_of_one
from softcheck.variants.unknown_calls import refusal_of
from softcheck.variants.wrapping import wrapper

if TYPE_CHECKING:
    import torch

_KEPT = 2**24
"""Elements of the largest input that is kept while its function's call is not known."""

_TOLD_APART = frozenset({"out", *OPERANDS})
"""Names whose place in a call, or whose meaning, only a trial can tell."""

_MASKS = ("torch.zeros_like(x)", "torch.zeros_like(x, dtype=torch.bool)", "torch.ones_like(x, dtype=torch.bool)")
"""Masks that mask nothing: one that is added, one of what is left out, one of what is kept."""

_OVER_OTHERS = (
    "f(x.mT).mT",
    "f(x3.movedim(-1, 1)).movedim(1, -1)",
    "f(x4.movedim(-1, 1)).movedim(1, -1)",
    "f((x, out))",
)
"""Calls of functions over the first or second dimension, and of one that takes input and output as a tuple."""


class Adapted:
    """A function with the call that makes a variant of it.

    If no call is given, it is found at the first call in a process. The likeliest is made on that call's own input. Where
    it gives no tensor of the input's shape, others are tried on a small matrix, and the first that answers is the
    function's from then on.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        ways: Sequence[Guess] = (),
        *,
        form: Form | None = None,
        refusal: Callable[[], str] = str,
    ) -> None:
        """Takes the calls that may be the function's, the likeliest first, or the one that is.

        ``refusal`` gives what is said where none of the calls answers.
        """
        # Not its attributes: an object's own would mix with these.
        functools.update_wrapper(self, function, updated=())
        if hasattr(function, ATTRIBUTE):
            setattr(self, ATTRIBUTE, getattr(function, ATTRIBUTE))
        self._function = function
        self._ways = ways
        self._form = form
        self._refusal = refusal
        self._operation: Operation | None = None
        self._is_moved = False
        self._first_input: tuple[torch.device, torch.dtype] | None = None
        self.others: tuple[str, ...] = ()
        """Calls with the same operands in another meaning, where none of these was right on a small trial."""
        self.is_given = form is not None
        """True if the call was not recognised but given."""

    @property
    def call(self) -> str:
        """The call; an empty text for the plain one and for one that is not known yet."""
        return "" if self._form is None or self._form.text == PLAIN else self._form.text

    @property
    def is_known(self) -> bool:
        """True if the call was given or has been found."""
        return self._form is not None

    def computing(self, operation: Operation) -> "Adapted":
        """Gives calls the values that an operation takes beside the matrix, and returns itself."""
        self._operation = operation
        if self._form is not None:
            self._form = self._form.of(operation)
        return self

    @property
    def names(self) -> frozenset[str]:
        """The names in the call that is given or found, else in the likeliest by the names of the function's parameters."""
        return names_in(self._text) if self._form is None else self._form.names

    @property
    def _text(self) -> str:
        return self._ways[0].text if self._form is None else self._form.text

    @property
    def untried(self) -> dict[str, tuple[Untried, ...]]:
        """The function's parameters that do nothing in its calls, each with the ways to have it judged.

        A call is among these if it is right on a small trial, or if no other meaning of the operand is. Of a call
        that was given none is named: whoever gave it has seen them.
        """
        if self._operation is None or self.is_given:
            return {}
        return untried(self._parameters, self._text, self.names, self._operation, self._right_on_trial)

    @property
    def open_options(self) -> dict[str, str]:
        """The function's parameters that keep their defaults in its calls, by the parameter of the operation that they are for.

        A temperature is named beside a scale. There are none of a call that was given.
        """
        if self._operation is None or self.is_given:
            return {}
        found = of_parameters(left_out(self._parameters, self._text))
        known = {*self._operation.parameters} | ({"temperature"} if "scale" in self._operation.parameters else set())
        return {name: parameter for name, parameter in found.items() if name in known}

    @property
    def unjudged(self) -> list[str]:
        """Sentences on the members of what it returns, and the temperatures, that are not judged, once it has been called."""
        if self._form is None or self._operation is None:
            return []
        return [
            *members_left_out(self._form, self._operation),
            *([] if self.is_given else temperatures_of_one(self.call)),
        ]

    @property
    def left_out(self) -> list[inspect.Parameter]:
        """The function's parameters that keep their defaults in the call that was given, or may keep them in any other."""
        return left_out(self._parameters, self._text if self.is_given else PLAIN)

    @property
    def _parameters(self) -> list[inspect.Parameter]:
        """The function's parameters, or those of its method ``forward``; none where there is no signature to read."""
        kind = getattr(self._function, "__self__", None)
        signed = kind.forward if inspect.isclass(kind) and hasattr(kind, "forward") else self._function
        try:
            return parameters_of(getattr(signed, "forward", signed))
        except (TypeError, ValueError):
            return []

    @property
    def doubtful_defaults(self) -> dict[str, str]:
        """Calls that are right on a small trial, where the call without one of their arguments is not, by its parameter."""
        if not self.others or self._form is None or self._operation is None:
            return {}
        calls = with_one_given(self._parameters, self._operation, self._form.without_part)
        return {name: call for name, call in calls.items() if self._first_right([call]) is not None}

    def _right_on_trial(self, calls: Sequence[str]) -> Sequence[str]:
        """The first of some calls that gives the right answer for a small matrix; all of them if none does."""
        found = self._first_right(calls)
        return calls if found is None else [found]

    def _first_right(self, calls: Sequence[str]) -> str | None:
        import torch

        device, dtype = self._first_input or (torch.device("cpu"), torch.float32)
        with launches.forgotten():
            for text in calls:
                form = self._made(text)
                trial, expected = with_answer(random_matrix(device, dtype), form, self._operation)
                try:
                    value = form(self._function, trial.clone(), {})
                    if value.shape == expected.shape and share_right(value, expected, form) == 1.0:
                        return text
                except Exception:  # noqa: BLE001, S112 - a call that is not the function's may raise anything
                    continue
        return None

    def with_operation(self, operation: Operation) -> "Adapted":
        """Returns a copy whose calls get what another operation gives them; the call itself stays as it was found."""
        found = copy.copy(self)
        found._form = None if self._form is None else copy.copy(self._form)  # noqa: SLF001 - of the same class
        return found.computing(operation)

    def on(self, function: Callable[..., Any]) -> "Adapted":
        """Returns the same call of another function, such as a copy of the module."""
        found = copy.copy(self)
        found._function = function  # noqa: SLF001 - of the same class
        functools.update_wrapper(found, function, updated=())
        return found

    def called_as(self, other: object) -> None:
        """Takes over the call that another copy of the function was found to have, where it was found."""
        if isinstance(other, Adapted) and self._form is None:
            self._form = other._form  # noqa: SLF001 - of the same class

    def __call__(self, x: "torch.Tensor", **options: Any) -> Any:
        """Returns the softmax of a matrix; raises what the function raises, or UsageError where no call answers."""
        self._move_to(x)
        if self._form is not None:
            return self._form(self._function, x, options)
        likeliest = self._ways[0]
        form = self._made(likeliest.text)
        if not _is_telling(x):
            return form(self._function, x, options)
        if hasattr(x, "device"):
            self._first_input = x.device, x.dtype
        if likeliest.sure and not form.names & _TOLD_APART:
            return self._first(form, x, options)
        # What a call writes into its output shows on an output of NaN alone.
        # A function of operands that gives something else is judged all the same, and found to give it.
        self._form = self._found_on_trial(x) or (form if form.names & OPERANDS else None)
        if self._form is None:
            raise UsageError(self._refusal())
        return self._form(self._function, x, options)

    def _is_answer(self, value: Any, x: "torch.Tensor") -> bool:
        """True if a value may be the answer for a matrix; its dtype and device are for the judge to find wrong."""
        numbers = x.shape[-1] if self._operation is None else self._operation.output_shape(1, x.shape[-1])[1]
        expected = (*x.shape[:-1], numbers)
        return value is not None and getattr(value, "shape", None) == expected

    def _made(self, text: str) -> Form:
        return Form(text) if self._operation is None else Form(text).of(self._operation)

    def _move_to(self, x: "torch.Tensor") -> None:
        """Moves a module to the device of its first input: its parameters lie on the CPU when it is made."""
        if not self._is_moved and hasattr(x, "device"):
            self._is_moved = True
            if not inspect.isclass(self._function) and (move := getattr(self._function, "to", None)) is not None:
                move(x.device)

    def _first(self, form: Form, x: "torch.Tensor", options: dict[str, Any]) -> Any:
        """Makes the likeliest call, on the input itself; where it does not answer, the call that is found on a trial."""
        before = _kept(x)
        if before is None:
            # A call that is not the function's may write to its input.
            self._form = self._found_on_trial(x) or form
            return self._form(self._function, x, options)
        try:
            value = form(self._function, x, options)
        except Exception as error:
            from softcheck.calling.call import is_out_of_memory
            from softcheck.calling.unable import limit_behind

            is_its_own = limit_behind(error) is not None or is_out_of_memory(error)
            self._form = form if is_its_own else self._found_on_trial(x) or form
            if self._form.text == form.text:
                raise
        else:
            is_right = self._is_answer(value, x) and not is_over_rows(value)
            self._form = form if is_right else self._found_on_trial(x) or form
            if self._form.text == form.text:
                return value
        x.detach().copy_(before)
        return self._form(self._function, x, options)

    def _found_on_trial(self, x: "torch.Tensor") -> Form | None:
        """The first call that gives the right answer for a small matrix; None if none answers at all.

        Of calls that answer wrongly the one is taken that is right on most elements. A function that takes an operand, such
        as a mask, is not called without it as long as it answers with it.
        """
        import torch

        from softcheck.calling.unable import limit_behind

        if not hasattr(x, "dtype"):
            return None
        plain = random_matrix(x.device, x.dtype)
        operation = self._operation
        answered: list[tuple[float, Form]] = []
        takes_matrices = False
        with launches.forgotten():
            for guess in self._all_ways():
                form = self._made(guess.text)
                if answered and _settles(_best(answered), form, guess):
                    break
                trial, expected = with_answer(plain, form, operation)
                if takes_matrices and "x1" in form.names:
                    continue
                try:
                    value = form(self._function, trial.clone(), {}, poison=float("nan"))
                    takes_matrices |= isinstance(value, torch.Tensor) and not guess.is_last_resort
                    if getattr(value, "shape", None) != expected.shape or torch.equal(value, trial):
                        continue
                    right = share_right(value, expected, form)
                    if right == 1.0:
                        return form
                    if guess.sure and right >= 0.0:
                        answered.append((right, form))
                except Exception as error:  # noqa: BLE001 - a call that is not the function's may raise anything
                    limit = limit_behind(error)
                    if limit is not None and not isinstance(limit, NotCalledError):
                        raise limit from None
        return self._taken(answered)

    def _taken(self, answered: Sequence[tuple[float, Form]]) -> Form | None:
        """The best of calls that were answered wrongly, and None of none; keeps those in which the operands mean something else."""
        if not answered:
            return None
        found = _best(answered)
        self.others = tuple(form.text for _, form in answered if form is not found and form.names & OPERANDS)
        return found

    def _all_ways(self) -> Iterator[Guess]:
        """The guesses, then with a mask, over another dimension, in place, and with other numbers of dimensions."""
        yield from self._ways
        for guess in self._ways:
            for mask in _MASKS if "None" in guess.text else ():
                yield Guess(guess.text.replace("None", mask), sure=False)
        if any(guess.text == PLAIN for guess in self._ways):
            yield from (Guess(text, sure=False) for text in _OVER_OTHERS)
            yield Guess("f(copy)", is_last_resort=True)
        for name in ("x4", "x3", "x5", "x1"):
            for guess in self._ways:
                if guess.sure:
                    yield Guess(re.sub(r"\bx\b", name, guess.text), is_last_resort=True)


def operands_of(function: object) -> frozenset[str]:
    """The names of what a variant's call is known to take beside the matrix, such as a mask or targets."""
    form = function._form if isinstance(function, Adapted) else None  # noqa: SLF001 - of this module
    return frozenset() if form is None else form.names & OPERANDS


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
    made = Adapted(callable_of(function)[0], form=Form(text, constants))
    if backward is not None:
        setattr(made, ATTRIBUTE, msgspec.structs.replace(declaration_of(made), backward=backward))
    return made


def adapted(found: Any, spec: str, call: str, operation: Operation) -> Adapted:
    """Returns the callable of one matrix that an object of a variant's module is, by ``call`` or by its own signature.

    Raises UsageError, with the text of a wrapper, for an object whose call can't be guessed.
    """
    return _adapted(found, spec, call, Vocabulary.of(operation)).computing(operation)


def _adapted(found: Any, spec: str, call: str, words: Vocabulary) -> Adapted:
    if isinstance(found, Adapted) and not call:
        return found
    if call:
        form = Form(call)
        return Adapted(
            callable_of(found)[0] if inspect.isclass(found) and not form.makes_instance else found, form=form
        )
    if is_triton_kernel(found):
        pasted = wrapper(found, spec)
        refusal = f"variant {spec!r} is a Triton kernel; expected the function that launches it. {pasted}"
        if (guess := kernel_guess(found)) is None:
            raise UsageError(refusal)
        return Adapted(found, [guess], refusal=lambda: refusal)
    try:
        function, ways = callable_of(found, words)
    except TypeError as error:
        raise UsageError(f"variant {spec!r} is a class that can't be used: {error}. {wrapper(found, spec)}") from None
    refused = functools.partial(refusal_of, found, function, spec, words.operation)
    if not ways:
        raise UsageError(refused())
    return Adapted(function, ways, refusal=refused)


def _kept(x: Any) -> Any:
    """A copy of a tensor that could be put back; None for one that is large or whose elements share memory."""
    is_small = hasattr(x, "stride") and x.numel() <= _KEPT and not shares_memory(x)
    return x.clone() if is_small else None


def _is_telling(x: Any) -> bool:
    """False for what no promise is given for, such as integers: whatever a call of it does tells nothing about the call."""
    return not hasattr(x, "dtype") or (x.dim() == 2 and x.is_floating_point())


def _best(answered: Sequence[tuple[float, Form]]) -> Form:
    """The call that is right on most elements, the likeliest of several."""
    return max(answered, key=lambda each: each[0])[1]


def _settles(found: Form, other: Form, guess: Guess) -> bool:
    """True if a call that answers, wrongly perhaps, makes another needless: a last resort, or one without its operands."""
    return guess.is_last_resort or (bool(found.names & OPERANDS) and not other.names & OPERANDS)
