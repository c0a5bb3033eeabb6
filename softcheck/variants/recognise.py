"""Guesses how a function is called on a matrix, from the names of its parameters. Imports no torch."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from softcheck.variants.forms import PLAIN

_OUTPUT = "out output outputs o y result res dst dest destination ret y_out out_ptr output_ptr out_tensor output_tensor y_ptr p probs"
_DIMENSION = "dim axis softmax_dim dimension"
_ROWS = "n_rows nrows rows num_rows row m batch batch_size bs"
_COLUMNS = (
    "n_cols ncols cols num_cols columns n_columns num_columns n hidden_size hidden width col n_col row_size length"
)
_BLOCK = "block_size block block_n block_cols block_m blocksize"
_STRIDE = (
    "stride row_stride stride_row input_row_stride x_row_stride in_row_stride in_stride input_stride x_stride stride_xm "
    "stride_x_row stride_input_row stride_in"
)
_OUT_STRIDE = (
    "output_row_stride out_row_stride y_row_stride out_stride output_stride y_stride stride_ym stride_y_row stride_output_row "
    "stride_out"
)
_ONE = "scale sm_scale softmax_scale temperature temp alpha tau scaling factor"
_NONE = "mask attn_mask attention_mask bias attn_bias"
_FALSE = "causal is_causal inplace in_place log is_log is_log_softmax log_softmax return_lse half_to_float training"

_ARGUMENTS: dict[str, str] = {
    name: text
    for names, text in (
        (_OUTPUT, "out"),
        (_DIMENSION, "-1"),
        (_ROWS, "rows"),
        (_COLUMNS, "columns"),
        (_BLOCK, "block"),
        (_STRIDE, "x.stride(0)"),
        (_OUT_STRIDE, "out.stride(0)"),
        (_ONE, "1.0"),
        (_NONE, "None"),
        (_FALSE, "False"),
        ("num_warps", "4"),
        ("num_stages", "2"),
        ("dtype", "x.dtype"),
        ("device", "x.device"),
        ("numel n_elements size", "x.numel()"),
        ("shape", "x.shape"),
    )
    for name in names.split()
}
"""The argument that a parameter of a name gets."""

_INPUT = ("x", "input", "logits", "inp", "scores", "input_ptr", "x_ptr", "in_ptr", "a", "src", "tensor")


@dataclass(frozen=True, slots=True)
class Guess:
    """A call that may be the function's. ``sure`` is False where the names of its parameters do not tell it."""

    text: str
    sure: bool = True


def guesses(function: Callable[..., Any], *, positional: bool = False) -> list[Guess]:
    """The calls that a function's parameters allow, the likeliest first; none where they can't be guessed.

    ``positional`` leaves out keywords, which the ``apply`` of an autograd function refuses.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        # Functions written in C may have no signature to read.
        return [
            Guess(PLAIN),
            Guess("f(x, -1)", sure=False),
            Guess("f(x, out)", sure=False),
            Guess("f(out, x)", sure=False),
        ]
    return guesses_for(parameters, positional=positional)


def guesses_for(parameters: Sequence[inspect.Parameter], *, positional: bool = False) -> list[Guess]:
    """The calls that some parameters allow; see ``guesses``."""
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and not any(_is_required(p) for p in parameters):
        return [Guess(PLAIN), Guess("f(x, -1)", sure=False)]
    needed = [p for p in parameters if _is_required(p) or _is_dimension(p)]
    known = {p.name: _ARGUMENTS.get(p.name.lower().rstrip("_")) for p in needed}
    place = _place_of_input(needed, known)
    if place is None:
        return []
    known[place] = "x"
    unknown = [name for name, text in known.items() if text is None]
    if not unknown:
        return _written(parameters, [known], positional=positional, sure=True)
    if len(unknown) > 1:
        return []
    # The one that is left is an output, before or behind the input, or a dimension.
    (other,) = unknown
    ways = [known | {other: "out"}, known | {other: "x", place: "out"}, known | {other: "-1"}]
    return _written(parameters, ways, positional=positional, sure=False)


def argument_for(parameter: str) -> str:
    """The argument for a parameter in a wrapper to be completed by hand; ``...`` where its name tells nothing."""
    name = parameter.lower().rstrip("_")
    return "x" if name in _INPUT else _ARGUMENTS.get(name, "...")


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _is_dimension(parameter: inspect.Parameter) -> bool:
    """True if a parameter names a dimension and is another one than the last if it is left out."""
    return parameter.name.lower() in _DIMENSION.split() and parameter.default not in (-1, parameter.empty)


def _place_of_input(needed: Sequence[inspect.Parameter], known: dict[str, str | None]) -> str | None:
    """The parameter that takes the input: one with such a name, else the first whose name tells nothing, else the first."""
    for candidates in (
        [p.name for p in needed if p.name.lower() in _INPUT],
        [p.name for p in needed if known[p.name] is None],
        [p.name for p in needed if p.kind is not p.KEYWORD_ONLY],
        [p.name for p in needed],
    ):
        if candidates:
            return candidates[0]
    return None


def _written(
    parameters: Sequence[inspect.Parameter], ways: Sequence[dict[str, str | None]], *, positional: bool, sure: bool
) -> list[Guess]:
    found = (_call(parameters, way, positional=positional) for way in ways)
    return [Guess(text, sure) for text in found if text is not None]


def _call(parameters: Sequence[inspect.Parameter], values: dict[str, str | None], *, positional: bool) -> str | None:
    """The call with these arguments; None if it would need a keyword and may not have one."""
    words: list[str] = []
    by_name = False
    for p in parameters:
        if p.name not in values:
            by_name = True
            continue
        text = str(values[p.name])
        is_named = (
            by_name or p.kind is p.KEYWORD_ONLY or (text in ("-1", "False", "None") and _can_be_named(p, positional))
        )
        if is_named and positional:
            return None
        words.append(f"{p.name}={text}" if is_named else text)
    return f"f({', '.join(words)})"


def _can_be_named(parameter: inspect.Parameter, positional: bool) -> bool:  # noqa: FBT001 - of a private function
    return (
        not positional and parameter.kind is not parameter.POSITIONAL_ONLY and parameter.default is not parameter.empty
    )
