"""The text of a wrapper for a function whose call can't be guessed, to be pasted and completed."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from softcheck.variants.recognise import argument_for, arguments_of, parameters_of


def wrapper(found: Any, spec: str) -> str:
    """A function of one matrix that calls an object, in which ``...`` stands for what its parameters' names do not tell.

    ``spec`` is the variant's name, FILE:FUNCTION or MODULE:FUNCTION.
    """
    location, _, name = spec.rpartition(":")
    module = location.removesuffix(".py").rpartition("/")[2]
    try:
        parameters = parameters_of(found)
    except (TypeError, ValueError):
        parameters = []
    is_kernel = hasattr(found, "arg_names") or hasattr(found, "fn")
    return "\n".join(
        [
            "A wrapper to paste into a file and complete, for softcheck report FILE.py:wrapped:",
            "",
            "    import torch",
            *(["    import triton"] if is_kernel else []),
            f"    from {module} import {name.partition('.')[0]}",
            "",
            "    def wrapped(x: torch.Tensor) -> torch.Tensor:",
            "        rows, columns = x.shape",
            *_body(name, parameters, is_class=inspect.isclass(found), is_kernel=is_kernel),
        ]
    )


def places_of_sequences(names: Sequence[str]) -> list[str]:
    """Returns those parameters' names that are of the places at which packed sequences begin, such as cu_seqlens_q."""
    return [name for name in names if _PLACES.match(name.lower())]


def packing_wrapper(names: Sequence[str], spec: str, operands: Mapping[str, str]) -> str:
    """A function of queries, keys and values that packs sequences of one length for a function of packed sequences.

    ``names`` are those of the function's needed parameters, ``operands`` those that are its queries, keys and values.
    """
    location, _, name = spec.rpartition(":")
    module = location.removesuffix(".py").rpartition("/")[2]
    given = {each: _packed(each, operands) for each in names}
    return "\n".join(
        [
            "A wrapper to paste into a file, for softcheck report FILE.py:wrapped --operation attention, packs sequences of one length:",
            "",
            "    import torch",
            f"    from {module} import {name}",
            "",
            "    def wrapped(q, k, v):",
            "        def packed(x):",
            "            return x.transpose(1, 2).flatten(0, 1)",
            "        def starts(x):",
            "            return x.shape[2] * torch.arange(len(x) + 1, dtype=torch.int32, device=x.device)",
            f"        out = {name}({', '.join(f'{each}={text}' for each, text in given.items())})",
            "        return out.unflatten(0, (q.shape[0], q.shape[2])).transpose(1, 2)",
        ]
    )


_PLACES = re.compile(r"cu_?seq_?len|cumulative_seq|seq_?start|(q|kv?|query|key)?_?indptr")
_LONGEST = re.compile(r"max_?(seq|len)")


def _packed(name: str, operands: Mapping[str, str]) -> str:
    """The argument that a parameter of a function of packed sequences gets."""
    whose = "k" if re.search(r"(^|_)k(v|ey)?s?(_|$)", name.lower()) else "q"
    if name in operands:
        return f"packed({operands[name]})"
    if _PLACES.match(name.lower()):
        return f"starts({whose})"
    return f"{whose}.shape[2]" if _LONGEST.match(name.lower()) else argument_for(name)


def _body(name: str, parameters: list[inspect.Parameter], *, is_class: bool, is_kernel: bool) -> list[str]:
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if is_class:
        made = ", ".join(f"{p.name}={_dimension_or_gap(p.name)}" for p in needed)
        return [f"        return {name}({made})(x)"]
    arguments = {p.name: argument_for(p.name) for p in needed}
    words = arguments_of(parameters, arguments)
    takes_out = any(text.startswith("out") for text in arguments.values())
    lines = ["        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)"] if takes_out else []
    if is_kernel:
        grid = "[(rows,)]"
        block = ["        block = triton.next_power_of_2(columns)"] if "block" in arguments.values() else []
        return [*lines, *block, f"        {name}{grid}({words})", "        return out"]
    return (
        [*lines, f"        {name}({words})", "        return out"] if takes_out else [f"        return {name}({words})"]
    )


def _dimension_or_gap(name: str) -> str:
    return "-1" if name in ("dim", "axis") else "..."
