"""The words for a function of which no call is known: the operation that it may be of, or a wrapper to paste and complete."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softcheck.operations.operation import Operation, without_layout
from softcheck.operations.registry import OPERATIONS
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.recognise import argument_for, arguments_of, is_required, parameters_of


def wrapper(found: Any, spec: str) -> str:
    """A function of one matrix that calls an object of a spec, with ``...`` for what its parameters' names do not tell."""
    parameters = parameters_of(found) or []
    is_kernel = hasattr(found, "arg_names") or hasattr(found, "fn")
    name = spec.rpartition(":")[2]
    arguments = {p.name: argument_for(p.name) for p in parameters if is_required(p)}
    takes_out = any(text.startswith("out") for text in arguments.values()) and not inspect.isclass(found)
    lines = ["rows, columns = x.shape"]
    lines += ["out = torch.empty(x.shape, dtype=x.dtype, device=x.device)"] if takes_out else []
    if inspect.isclass(found):
        made = ", ".join(f"{each}={'-1' if each in ('dim', 'axis') else '...'}" for each in arguments)
        lines += [f"return {name}({made})(x)"]
    elif is_kernel:
        lines += ["block = triton.next_power_of_2(columns)"] if "block" in arguments.values() else []
        lines += [f"{name}[(rows,)]({arguments_of(parameters, arguments)})", "return out"]
    else:
        call = f"{name}({arguments_of(parameters, arguments)})"
        lines += [call, "return out"] if takes_out else [f"return {call}"]
    imports = ["import torch", *(["import triton"] if is_kernel else [])]
    pasted = _pasted(spec, imports, "wrapped(x: torch.Tensor) -> torch.Tensor", lines)
    return f"A wrapper to paste into a file and complete, for softcheck report FILE.py:wrapped:\n\n{pasted}"


def _pasted(spec: str, imports: Sequence[str], signature: str, lines: Sequence[str]) -> str:
    """The text of a function that calls that of a spec, indented."""
    location, _, name = spec.rpartition(":")
    module = location.removesuffix(".py").rpartition("/")[2]
    imported = f"from {module} import {name.partition('.')[0]}"
    text = [*imports, imported, "", f"def {signature}:", *(f"    {line}" for line in lines)]
    return "\n".join(f"    {line}" if line else "" for line in text)


def packing_wrapper(names: Sequence[str], spec: str, operands: Mapping[str, str]) -> str:
    """A function of queries, keys and values, by the names of needed parameters, that packs sequences of one length for a function of packed ones."""
    given = ", ".join(f"{each}={_packed(each, operands)}" for each in names)
    lines = [
        "def packed(x):",
        "    return x.transpose(1, 2).flatten(0, 1)",
        "def starts(x):",
        "    return x.shape[2] * torch.arange(len(x) + 1, dtype=torch.int32, device=x.device)",
        f"out = {spec.rpartition(':')[2]}({given})",
        "return out.unflatten(0, (q.shape[0], q.shape[2])).transpose(1, 2)",
    ]
    pasted = _pasted(spec, ["import torch"], "wrapped(q, k, v)", lines)
    return (
        "A wrapper to paste into a file, for softcheck report FILE.py:wrapped --operation attention, packs sequences of one "
        f"length:\n\n{pasted}"
    )


_PLACES = re.compile(r"cu_?seq_?len|cumulative_seq|seq_?start|(q|kv?|query|key)?_?indptr")
"""Beginnings of names for the places at which packed sequences begin, such as cu_seqlens_q."""
_LONGEST = re.compile(r"max_?(seq|len)")


def _packed(name: str, operands: Mapping[str, str]) -> str:
    """The argument that a parameter of a function of packed sequences gets."""
    whose = "k" if re.search(r"(^|_)k(v|ey)?s?(_|$)", name.lower()) else "q"
    if name in operands:
        return f"packed({operands[name]})"
    if _PLACES.match(name.lower()):
        return f"starts({whose})"
    return f"{whose}.shape[2]" if _LONGEST.match(name.lower()) else argument_for(name)


def refusal_of(found: Any, function: Callable[..., Any], spec: str, judged: Operation) -> str:
    """Returns why a function can't be called, and the next step: another operation, a call, or a wrapper of ``found``."""
    name = getattr(function, "__name__", type(function).__name__)
    parameters = parameters_of(function)
    signature = "(...)" if parameters is None else str(inspect.signature(function))
    needed = [each.name for each in parameters or () if is_required(each)]
    begin = f"variant {spec!r}: {name}{signature}"
    if packed := [name for name in needed if _PLACES.match(name.lower())]:
        named = (operand_names(needed, each) for each in OPERATIONS)
        operands = next((each for each in named if {*each.values()} >= {"q", "k", "v"}), None)
        pasted = wrapper(found, spec) if operands is None else packing_wrapper(needed, spec, operands)
        return f"{begin} takes {packed[0]}, and packed sequences of several lengths are not judged. {pasted}"
    what = "one matrix" if "x" in {each.name for each in judged.operands} else "its operands"
    begin += f" can't be called with {what}, and no other call of it was found to give an answer; "
    if fitting := [each for each in fitting_operations(needed, name) if each != judged.name]:
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
