"""Other ways to ask a function: its own parameters, its module changed, its calls mapped by ``torch.vmap``."""

import copy
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from softcheck.calling.operands import Around
from softcheck.probes.helpers import parameters_of
from softcheck.variants.adapt import Adapted
from softcheck.variants.recognise import DTYPES

Function = Callable[..., Any]

OF_DIMENSION = ("dim", "axis")
LAUNCH: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "num_warps": (("num_warps",), (1, 2, 4, 8, 16)),
    "splits": (("num_splits", "n_splits", "splits", "split_k", "num_kv_splits", "kv_splits"), (1, 2, 3, 7)),
}
"""Axes of parameters that say how kernels are launched: the parameters' names, and values. ``splits`` says in how many parts the keys or
the columns of a row are taken."""
VMAP: Mapping[str, int] = {"over 0": 0, "over 1": 1, "over the last": -1}
_MATRIX = 2


def own_function(function: Function) -> Function:
    """Returns the user's own function, with what decorates it, behind the call that makes a variant of it."""
    return function.own if isinstance(function, Adapted) else function


def replaced(function: Function, change: Callable[[Function], Function]) -> Function:
    """Returns the same call of the user's own function changed."""
    changed = change(own_function(function))
    return function.on(changed) if isinstance(function, Adapted) else changed


def with_values(function: Function, values: Mapping[str, object]) -> Function:
    """Returns a function with parameters of its own at these values, whatever a call gives for them."""
    signature = inspect.signature(function)

    def called(*given: Any, **named: Any) -> Any:
        bound = signature.bind_partial(*given, **named)
        bound.arguments.update(values)
        return function(*bound.args, **bound.kwargs)

    return signed_as(function, called)


def signed_as(function: Function, called: Function) -> Function:
    """Gives a call of a function that function's signature, by which others find its parameters."""
    called.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return called


def moved(
    function: Function, values: Mapping[str, object], leading: Sequence[int], place: int, *, is_packed: bool
) -> Function:
    """Returns a function of tensors whose row is a dimension ``place`` beside ``leading`` ones as one of matrices.

    They are packed in the order of their dimensions, or lie as the matrices do.
    """
    asked = with_values(function, values)

    def given(x: Any) -> Any:
        is_matrix = isinstance(x, torch.Tensor) and x.dim() == _MATRIX
        laid = x.reshape(*leading, x.shape[1]).movedim(-1, place) if is_matrix else x
        return laid.contiguous() if is_matrix and is_packed else laid

    def called(*tensors: Any, **named: Any) -> Any:
        answer = asked(*map(given, tensors), **{name: given(each) for name, each in named.items()})
        rows, columns = next(each.shape for each in (*tensors, *named.values()) if isinstance(each, torch.Tensor))
        if not isinstance(answer, torch.Tensor):
            return answer
        due = given(answer.new_empty(rows, columns))
        if answer.shape == due.shape:
            return answer.movedim(place, -1).reshape(rows, columns)
        is_of_rows = answer.shape in {torch.Size(leading), due.narrow(place, 0, 1).shape}
        return answer.reshape(rows, 1) if is_of_rows else answer

    return called


def over_last_two(function: Function, option: str) -> Function:
    """Returns a function over the last two dimensions at once, as one whose row is the last dimension."""
    asked = with_values(function, {option: (-2, -1)})

    def split(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        last = next((n for n in (5, 3, 2) if x.shape[-1] % n == 0), 1)
        return x.reshape(*x.shape[:-1], x.shape[-1] // last, last)

    def called(*given: Any, **named: Any) -> Any:
        answer = asked(*map(split, given), **{name: split(each) for name, each in named.items()})
        is_kept = isinstance(answer, torch.Tensor) and answer.dim() > _MATRIX and answer.shape[-2:] == (1, 1)
        return answer.squeeze(-1) if is_kept else answer

    return called


def other_values(function: Function, dtype: str) -> dict[str, Any]:
    """Returns another value for each parameter whose default is None, a flag or a float; a dtype where the name says one."""
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    other = torch.float32 if dtype == "float16" else torch.float16
    found: dict[str, Any] = {}
    for each in [*parameters_of(function).values()][1:]:
        if each.kind not in kinds or each.name in OF_DIMENSION:
            continue
        if isinstance(each.default, bool):
            found[each.name] = not each.default
        elif each.default is None:
            found[each.name] = other if each.name.lower() in DTYPES.split() else 0.5
        elif isinstance(each.default, float):
            found[each.name] = 0.5 * (each.default or 1.0)
    return found


def mapped(function: Function, place: int) -> Function:
    """Returns a function as ``torch.vmap`` maps it over three samples along a dimension, of which the input is the second."""

    def called(function: Function, x: torch.Tensor) -> Any:
        samples = torch.stack([x.flip(0), x, -x], dim=place)
        answers = torch.vmap(function, in_dims=place)(samples)
        return answers[1] if isinstance(answers, torch.Tensor) else answers

    return Around(function, called)


def _saved(module: torch.nn.Module) -> torch.nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded: torch.nn.Module = torch.load(file, weights_only=False)
    return loaded


def changed_modules(function: Function, dtype: torch.dtype) -> dict[str, torch.nn.Module]:
    """Returns the module that a function is, as users change it; none of what can't be copied or saved, nor of any other function.

    A cast that rounds what the module has learnt is left out: its answers are others then. A constant in a buffer is not learnt.
    """
    module = inspect.unwrap(function)
    if not isinstance(module, torch.nn.Module):
        return {}
    rounds = any(p.is_floating_point() and not torch.equal(p.to(dtype).to(p.dtype), p) for p in module.parameters())
    changes: dict[str, Callable[[], torch.nn.Module]] = {
        "copied by copy.deepcopy": partial(copy.deepcopy, module),
        "saved by torch.save and loaded": partial(_saved, module),
        "in training": lambda: copy.deepcopy(module).train(),
        **({} if rounds else {"cast by to(x.dtype)": lambda: copy.deepcopy(module).to(dtype)}),
    }
    found = {}
    for name, change in changes.items():
        try:
            found[name] = change()
        except Exception:  # noqa: BLE001, S112 - a module need not be copied, and what can't be is no finding
            continue
    return found
