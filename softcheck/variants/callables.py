"""Classes, modules and objects as functions, with the calls that may be theirs. Imports torch and triton when they are needed."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from softcheck.variants.forms import PLAIN
from softcheck.variants.recognise import Guess, Vocabulary, guesses, guesses_for, instance_guesses

_NO_WORDS = Vocabulary()


def callable_of(found: Any, words: Vocabulary = _NO_WORDS) -> tuple[Callable[..., Any], list[Guess]]:
    """Returns the function behind a class, a module or an object, and the calls that may be its own.

    Raises TypeError, with the reason, for an object that can't be called and for a class whose arguments can't be guessed.
    """
    import torch

    if inspect.isclass(found):
        return _callable_of_class(found, words)
    if isinstance(found, torch.nn.Module):
        return found.eval(), guesses(found.forward, words=words)
    if not callable(found):
        method = getattr(found, "forward", None) or getattr(found, "apply", None)
        if method is None:
            raise TypeError("its objects can't be called and have no method forward or apply")
        return method, guesses(method, words=words)
    kind = getattr(found, "__self__", None)
    if inspect.isclass(kind) and issubclass(kind, torch.autograd.Function):
        return callable_of(kind, words)
    # Torch's convention: a name that ends in an underscore is of an operation in place.
    in_place = re.fullmatch(r"[a-z]\w*[^_]_", str(getattr(found, "__name__", "")))
    return found, [
        Guess(g.text.replace(PLAIN, "f(copy)"), g.sure) if in_place else g for g in guesses(found, words=words)
    ]


def _callable_of_class(kind: type, words: Vocabulary) -> tuple[Callable[..., Any], list[Guess]]:
    import torch

    if issubclass(kind, torch.autograd.Function):
        parameters = list(inspect.signature(kind.forward).parameters.values())
        has_context = kind.setup_context is torch.autograd.Function.setup_context
        return kind.apply, guesses_for(parameters[1:] if has_context else parameters, positional=True, words=words)
    is_module = issubclass(kind, torch.nn.Module)
    if "apply" in vars(kind) and not is_module:
        apply = getattr(kind, "apply")  # noqa: B009 - a type has none by itself
        return apply, guesses(apply, words=words)
    if (instance := _instance(kind)) is not None:
        return callable_of(instance, words)
    method = getattr(kind, "__call__" if "__call__" in vars(kind) else "forward", None)
    if method is None or not (ways := instance_guesses(kind, method, is_module=is_module, words=words)):
        raise TypeError(f"{kind.__name__}{inspect.signature(kind)} needs arguments that can't be guessed")
    return kind, ways


def _instance(kind: type) -> Any:
    """An instance of a class whose parameters, if it needs any, name a dimension; None for another class."""
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):
        return kind()
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    dims = {p.name: -1 for p in signature.parameters.values() if p.name in ("dim", "axis") and p.default != -1}
    if any(p.name not in dims for p in needed):
        return None
    return kind(**dims)


def is_triton_kernel(found: Any) -> bool:
    """True for a function that Triton has decorated, which is launched and not called."""
    from triton.runtime.jit import KernelInterface

    return isinstance(found, KernelInterface)
