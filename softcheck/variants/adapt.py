"""Functions, classes and modules of any signature as variants: callables of one matrix. Imports torch when it is needed."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from softcheck.calling import launches
from softcheck.errors import UsageError
from softcheck.variants.declaration import ATTRIBUTE
from softcheck.variants.forms import PLAIN, Form, shares_memory
from softcheck.variants.recognise import Guess, guesses, guesses_for
from softcheck.variants.wrapping import wrapper

if TYPE_CHECKING:
    import torch

_TRIAL = (12, 16)
"""Shape of the matrix on which calls are tried; its rows can be split into two and three dimensions."""

_KEPT = 2**24
"""Elements of the largest input that is kept while its function's call is not known."""

_CLOSE = 0.1
"""Largest difference from the softmax with which a call is accepted that names alone do not tell."""


class Adapted:
    """A function with the call that makes a variant of it.

    If no call is given, it is found at the first call in a process. The likeliest is made on that call's own input. Where
    it gives no tensor of the input's shape, others are tried on a small matrix, and the first that answers is the
    function's from then on.
    """

    def __init__(
        self, function: Callable[..., Any], ways: Sequence[Guess] = (), *, form: Form | None = None, refusal: str = ""
    ) -> None:
        """Takes the calls that may be the function's, the likeliest first, or the one that is.

        ``refusal`` is what is said where none of the calls answers.
        """
        # Not its attributes: an object's own would mix with these.
        functools.update_wrapper(self, function, updated=())
        if hasattr(function, ATTRIBUTE):
            setattr(self, ATTRIBUTE, getattr(function, ATTRIBUTE))
        self._function = function
        self._ways = ways
        self._form = form
        self._refusal = refusal
        self.is_given = form is not None
        """True if the call was not recognised but given."""

    @property
    def call(self) -> str:
        """The call; an empty text for the plain one and for one that is not known yet."""
        return "" if self._form is None or self._form.text == PLAIN else self._form.text

    def __call__(self, x: "torch.Tensor", **options: Any) -> Any:
        """Returns the softmax of a matrix; raises what the function raises, or UsageError where no call answers."""
        if self._form is not None:
            return self._form(self._function, x, options)
        if (move := getattr(self._function, "to", None)) is not None:
            # A module's parameters lie on the CPU when it is made.
            move(x.device)
        likeliest = self._ways[0]
        form = Form(likeliest.text)
        if not likeliest.sure or "out" in form.names:
            # What a call writes into its output shows on an output of NaN alone.
            self._form = self._found_on_trial(x)
            if self._form is None:
                raise UsageError(self._refusal)
            return self._form(self._function, x, options)
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
            self._form = form if _is_answer(value, x) else self._found_on_trial(x) or form
            if self._form.text == form.text:
                return value
        x.copy_(before)
        return self._form(self._function, x, options)

    def _found_on_trial(self, x: "torch.Tensor") -> Form | None:
        """The first call that answers on a small matrix; None if none does."""
        import torch

        from softcheck.calling.unable import limit_behind

        if not hasattr(x, "dtype"):
            return None
        generator = torch.Generator().manual_seed(0)
        trial = torch.randn(_TRIAL, generator=generator).to(device=x.device, dtype=x.dtype)
        expected = torch.softmax(trial.double(), dim=-1)
        with launches.forgotten():
            for guess in self._all_ways():
                form = Form(guess.text)
                try:
                    value = form(self._function, trial.clone(), {}, poison=float("nan"))
                    if not _is_answer(value, trial) or torch.equal(value, trial) or bool(value.isnan().all()):
                        continue
                    if guess.sure or float((value.double() - expected).abs().max()) < _CLOSE:
                        return form
                except Exception as error:  # noqa: BLE001 - a call that is not the function's may raise anything
                    if (limit := limit_behind(error)) is not None:
                        raise limit from None
        return None

    def _all_ways(self) -> Iterator[Guess]:
        """The guesses, then in place, then with more dimensions."""
        yield from self._ways
        if any(guess.text == PLAIN for guess in self._ways):
            yield Guess("f(copy)")
        for name in ("x4", "x3"):
            for guess in self._ways:
                if guess.sure:
                    yield Guess(guess.text.replace("(x", f"({name}").replace(", x", f", {name}"))


def adapt(
    function: Callable[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dims: Literal[2, 3, 4] = 2,
    out: Literal["first", "last", "kw"] | None = None,
    returns: int | None = None,
) -> Adapted:
    """Makes a variant of a function of another signature.

    ``args`` and ``kwargs`` are passed on behind the input, [rows, columns], which is split into ``dims`` dimensions: [batch,
    heads, rows, columns] for 4. ``out`` says where the function takes memory for its answer: before the input, as its last
    positional argument, or as the keyword ``out``. ``returns`` is the index of the answer in a tuple; if it is left out,
    the first tensor of the input's shape.

    Raises UsageError for other values of ``dims`` and ``out``.
    """
    if dims not in (2, 3, 4) or out not in (None, "first", "last", "kw"):
        raise UsageError(
            f"adapt: dims is {dims!r} and out is {out!r}; expected 2, 3 or 4, and None, 'first', 'last' or 'kw'"
        )
    constants: dict[str, Any] = {f"argument_{i}": value for i, value in enumerate(args)}
    words = [*(["out"] if out == "first" else []), "x" if dims == 2 else f"x{dims}", *constants]
    words += ["out"] if out == "last" else []
    for name, value in (kwargs or {}).items():
        constants[f"keyword_{name}"] = value
        words.append(f"{name}=keyword_{name}")
    words += ["out=out"] if out == "kw" else []
    text = f"f({', '.join(words)})" + ("" if returns is None else f"[{returns}]")
    return Adapted(_callable_of(function)[0], form=Form(text, constants))


def adapted(found: Any, spec: str, call: str = "") -> Callable[..., Any]:
    """Returns the callable of one matrix that an object of a variant's module is, by ``call`` or by its own signature.

    Raises UsageError, with the text of a wrapper, for an object whose call can't be guessed.
    """
    if isinstance(found, Adapted) and not call:
        return found
    if call:
        return Adapted(_callable_of(found)[0] if inspect.isclass(found) else found, form=Form(call))
    pasted = wrapper(found, spec)
    if _is_kernel(found):
        raise UsageError(f"variant {spec!r} is a Triton kernel; expected the function that launches it. {pasted}")
    try:
        function, ways = _callable_of(found)
    except TypeError as error:
        raise UsageError(f"variant {spec!r} is a class that can't be used: {error}. {pasted}") from None
    refusal = f"variant {spec!r}: {_unknown_call(function)} {pasted}"
    if not ways:
        raise UsageError(refusal)
    return Adapted(function, ways, refusal=refusal)


def _unknown_call(function: Callable[..., Any]) -> str:
    """Says that no call of a function is known that gives the softmax of a matrix."""
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = "(...)"
    name = getattr(function, "__name__", type(function).__name__)
    return (
        f"{name}{signature} can't be called with one matrix, and no other call of it was found to give a softmax; "
        "say how it is called by --call, as in --call 'f(x, dim=-1)' or --call 'f(out, x)', or write a wrapper."
    )


def _callable_of(found: Any) -> tuple[Callable[..., Any], list[Guess]]:
    """The function behind a class, a module or an object, and the calls that may be its own."""
    import torch

    if inspect.isclass(found) and issubclass(found, torch.autograd.Function):
        parameters = list(inspect.signature(found.forward).parameters.values())
        has_context = found.setup_context is torch.autograd.Function.setup_context
        return found.apply, guesses_for(parameters[1:] if has_context else parameters, positional=True)
    if inspect.isclass(found):
        if "apply" in vars(found) and not issubclass(found, torch.nn.Module):
            apply = getattr(found, "apply")  # noqa: B009 - a type has none by itself
            return apply, guesses(apply)
        return _callable_of(_instance(found))
    if isinstance(found, torch.nn.Module):
        return found.eval(), guesses(found.forward)
    if not callable(found):
        method = getattr(found, "forward", None) or getattr(found, "apply", None)
        if method is None:
            raise TypeError("its objects can't be called and have no method forward or apply")
        return method, guesses(method)
    return found, guesses(found)


def _instance(kind: type) -> Any:
    """An instance of a class whose parameters, if it needs any, name a dimension. Raises TypeError for another class."""
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):
        return kind()
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    dims = {p.name: -1 for p in signature.parameters.values() if p.name in ("dim", "axis") and p.default != -1}
    if any(p.name not in dims for p in needed):
        raise TypeError(f"{kind.__name__}{signature} needs arguments that can't be guessed")
    return kind(**dims)


def _is_kernel(found: Any) -> bool:
    from triton.runtime.jit import KernelInterface

    return isinstance(found, KernelInterface)


def _kept(x: Any) -> Any:
    """A copy of a tensor that could be put back; None for one that is large or whose elements share memory."""
    is_small = hasattr(x, "stride") and x.numel() <= _KEPT and not shares_memory(x)
    return x.clone() if is_small else None


def _is_answer(value: Any, x: Any) -> bool:
    """True if a value may be the softmax of a tensor; its dtype and device are for the judge to find wrong."""
    return value is not None and getattr(value, "shape", None) == getattr(x, "shape", ...)
