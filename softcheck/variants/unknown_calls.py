"""The words for a function of which no call is known: the operation that it may be of, or a wrapper to paste."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from softcheck.operations.operation import Operation, without_layout
from softcheck.operations.registry import OPERATIONS
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.recognise import parameters_of
from softcheck.variants.wrapping import packing_wrapper, places_of_sequences, wrapper


def refusal_of(found: Any, function: Callable[..., Any], spec: str, judged: Operation | None) -> str:
    """Returns why a function can't be called, and the next step: another operation, a call, or a wrapper of ``found``."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature, needed = str(inspect.signature(function)), _needed(function)
    except (TypeError, ValueError):
        signature, needed = "(...)", []
    begin = f"variant {spec!r}: {name}{signature}"
    if packed := places_of_sequences(needed):
        operands = operand_names(needed, "attention")
        is_attention = {*operands.values()} >= {"q", "k", "v"}
        pasted = packing_wrapper(needed, spec, operands) if is_attention else wrapper(found, spec)
        return f"{begin} takes {packed[0]}, and packed sequences of several lengths are not judged. {pasted}"
    what = "one matrix" if judged is None or "x" in {each.name for each in judged.operands} else "its operands"
    begin += f" can't be called with {what}, and no other call of it was found to give an answer; "
    if fitting := [each for each in fitting_operations(needed, name) if judged is None or each != judged.name]:
        options = " or ".join(f"--operation {each}" for each in fitting)
        return f"{begin}the names of its parameters are those of another operation: add {options}"
    return (
        f"{begin}say how it is called by --call, as in --call 'f(x, dim=-1)' or --call 'f(out, x)', or write a wrapper. "
        f"{wrapper(found, spec)}"
    )


def fitting_operations(needed: Sequence[str], name: str) -> list[str]:
    """Returns the operations whose operands a function's needed parameters name, those that explain most parameters.

    Of a gradient of softmax and of log_softmax the function's name tells, if it says anything. One letter alone, as y for
    targets, tells nothing.
    """
    found: dict[str, int] = {}
    for each in OPERATIONS:
        operands = {operand.name for operand in operation_of(each).operands} - {"x"}
        named = operand_names(needed, each)
        is_told = len(operands) > 1 or any(len(parameter) > 1 for parameter in named)
        if operands and operands <= {*named.values()} and is_told:
            found[each] = len(named)
    best = [each for each, count in found.items() if count == max(found.values())]
    is_logarithm = "log" in name.lower()
    told = [each for each in best if each.startswith("log_") is is_logarithm]
    return told if is_logarithm and told else best


def operand_names(needed: Sequence[str], operation: str) -> dict[str, str]:
    """Returns the operands of an operation, such as q, that parameters stand for, by the parameters' names."""
    computed = operation_of(operation)
    words = {} if computed.arguments is None else computed.arguments.words
    known = {name: without_layout(texts[0]) for names, texts in words.items() for name in names.split()}
    own = {operand.name for operand in computed.operands}
    found = {name: known.get(name.lower().rstrip("_"), "") for name in needed}
    return {name: operand for name, operand in found.items() if operand in own}


def _needed(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters without a default."""
    return [
        each.name
        for each in parameters_of(function)
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
