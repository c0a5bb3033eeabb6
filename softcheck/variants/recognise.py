"""Guesses how a function is called on a matrix, from the names of its parameters. Imports no torch."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.defaults import passed
from softcheck.variants.forms import PLAIN, are_of_one_layout, operands_in
from softcheck.variants.meanings import OTHERWISE, PARAMETERS, SCALE, TEMPERATURE, hidden_and_head

_OUTPUT = "out output outputs o y result res dst dest destination ret y_out out_ptr output_ptr out_tensor output_tensor y_ptr p probs"
_DIMENSION = "dim axis softmax_dim dimension"
_ROWS = "n_rows nrows rows num_rows row m batch batch_size bs"
_COLUMNS = (
    "n_cols ncols cols num_cols columns n_columns num_columns n hidden_size hidden width col n_col row_size length"
)
_BLOCK = "block_size block block_n block_cols blocksize block_size_n block_dim"
_ROWS_IN_BLOCK = "block_m block_rows rows_per_program rows_per_block block_size_m"
_STRIDE = (
    "stride row_stride stride_row input_row_stride x_row_stride in_row_stride in_stride input_stride x_stride stride_xm "
    "stride_x_row stride_input_row stride_in stride_x in_stride_row"
)
_OUT_STRIDE = (
    "output_row_stride out_row_stride y_row_stride out_stride output_stride y_stride stride_ym stride_y_row stride_output_row "
    "stride_out stride_y stride_o stride_om out_stride_row"
)
_COLUMN_STRIDE = "stride_xn stride_x_col x_col_stride input_col_stride in_col_stride col_stride stride_col"
_OUT_COLUMN_STRIDE = "stride_yn stride_y_col y_col_stride output_col_stride out_col_stride stride_on"
_NONE = "mask attn_mask attention_mask bias attn_bias"
_FALSE = "log_outputs log_output causal is_causal inplace in_place log is_log is_log_softmax log_softmax return_lse half_to_float training"
DTYPES = (
    "dtype input_dtype in_dtype out_dtype output_dtype grad_input_dtype result_dtype x_dtype acc_dtype compute_dtype"
)
"""Names of parameters that take a dtype."""

TEMPERATURES = "torch.ones(rows, device=x.device)"
"""A temperature for each row at which the answer is that for the rows alone."""

_ARGUMENTS: dict[str, str] = {
    name: text
    for names, text in (
        (_OUTPUT, "out"),
        (_DIMENSION, "-1"),
        (_ROWS, "rows"),
        (_COLUMNS, "columns"),
        (_BLOCK, "block"),
        (_ROWS_IN_BLOCK, "1"),
        (_STRIDE, "x.stride(0)"),
        (_OUT_STRIDE, "out.stride(0)"),
        (_COLUMN_STRIDE, "x.stride(1)"),
        (_OUT_COLUMN_STRIDE, "out.stride(1)"),
        (f"{SCALE} {TEMPERATURE}", "1.0"),
        ("temperatures", TEMPERATURES),
        (_NONE, "None"),
        (_FALSE, "False"),
        ("num_warps", "4"),
        ("num_stages", "2"),
        (DTYPES, "x.dtype"),
        ("device", "x.device"),
        ("numel n_elements size", "x.numel()"),
        ("shape", "x.shape"),
    )
    for name in names.split()
}
"""The argument that a parameter of a name gets."""

_INPUT = (
    "x",
    "input",
    "logits",
    "inp",
    "scores",
    "self",
    "data",
    "input_ptr",
    "x_ptr",
    "in_ptr",
    "a",
    "src",
    "tensor",
    "attention_scores",
    "attn_scores",
)


@dataclass(frozen=True, slots=True)
class Guess:
    """A call that may be the function's. ``sure`` is False where the names of its parameters do not tell it."""

    text: str
    sure: bool = True
    is_last_resort: bool = False
    """True if it is tried only where no other call answers."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names of parameters that mean something else, or something more, for an operation."""

    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments that a parameter without a default may get, the likeliest first."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Arguments that a parameter gets for a value of the operation's that is not the usual one."""
    takes_matrix: bool = True
    """False if all operands are made from the matrix, which itself is none."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Arguments that a parameter without a default gets for a parameter of the operation, whatever its value is."""
    operation: Operation | None = None
    """The operation, whose values say which parameters with a default are given."""

    @classmethod
    def of(cls, operation: Operation) -> "Vocabulary":
        """The names of an operation's arguments and of the parameters that have other than their usual values."""
        arguments, given = operation.arguments, operation.parameters
        usual = operation_of(operation.name).parameters
        changed = {name for name, value in given.items() if value != usual.get(name, value)}
        if given.get("scale", 1.0) != 1:
            changed.add("scale")
        numbers = [(one.names, one.text) for one in PARAMETERS if one.parameter in changed]
        known = [(one.names, one.text) for one in PARAMETERS if one.parameter in given and one.text != "True"]
        return cls(
            {}
            if arguments is None
            else {name: texts for names, texts in arguments.words.items() for name in names.split()},
            {name: text for names, text in numbers for name in names.split()},
            any(operand.name == "x" for operand in operation.operands),
            {name: text for names, text in known for name in names.split() if name not in OTHERWISE},
            operation,
        )


_PLAIN_WORDS = Vocabulary()

_WITHOUT_NAMES = [Guess(PLAIN), *(Guess(text, sure=False) for text in ("f(x, -1)", "f(x, out)", "f(out, x)"))]
"""The calls of a function that has no signature to read, such as one written in C."""


def guesses(function: Callable[..., Any], *, positional: bool = False, words: Vocabulary = _PLAIN_WORDS) -> list[Guess]:
    """The calls that a function's parameters allow, the likeliest first; none where they can't be guessed.

    ``positional`` leaves out keywords, which the ``apply`` of an autograd function refuses.
    """
    try:
        return guesses_for(parameters_of(function), positional=positional, words=words)
    except (TypeError, ValueError):
        return _WITHOUT_NAMES


def parameters_of(function: Any) -> list[inspect.Parameter]:
    """The parameters of a function, of an operator that torch has registered, or of a Triton kernel; tuned ones have a default.

    Raises TypeError or ValueError where there is no signature to read.
    """
    operator = getattr(function, "_opoverload", None) or getattr(function, "default", None) or function
    if (schema := getattr(operator, "_schema", None)) is not None:
        return [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY if each.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=each.default_value if each.has_default_value() else inspect.Parameter.empty,
            )
            for each in schema.arguments
        ]
    tuned: set[str] = set()
    while not callable(function) or hasattr(function, "arg_names"):
        # Autotuned kernels and kernels with heuristics hold the kernel that they launch.
        for one in getattr(function, "configs", ()):
            tuned |= one.all_kwargs().keys()
        tuned |= {*getattr(function, "values", ())}
        if not hasattr(function, "fn"):
            break
        function = function.fn
    found = inspect.signature(function).parameters.values()
    return [each.replace(default=None) if each.name in tuned else each for each in found]


def parameters_to_make(kind: Any) -> list[inspect.Parameter]:
    """The parameters of a class whose instances are called; none of anything else, or without a signature to read."""
    try:
        is_made = inspect.isclass(kind) and not hasattr(kind, "setup_context")
        return parameters_of(kind) if is_made else []
    except (TypeError, ValueError):
        return []


def instance_guesses(
    kind: type, method: Callable[..., Any], *, is_module: bool, words: Vocabulary = _PLAIN_WORDS
) -> list[Guess]:
    """The calls of a class whose instances need arguments; none where these can't be guessed."""
    needed = [p for p in parameters_of(kind) if _is_required(p) or _is_dimension(p)]
    known = {p.name: argument_of(p.name, words) for p in needed}
    if not all(known.values()):
        return []
    made = f"f({arguments_of(needed, known)})"
    moved = ".to(x.device).eval()" if is_module else ""
    return [
        Guess(f"{made}{moved}{guess.text[1:]}", guess.sure)
        for guess in guesses_for(list(inspect.signature(method).parameters.values())[1:], words=words)
    ]


def kernel_guess(kernel: Any) -> Guess | None:
    """The launch of a Triton kernel with one program for each row; None where an argument's name tells nothing."""
    parameters = parameters_of(kernel)
    values = {p.name: argument_for(p.name) for p in parameters if _is_required(p)}
    if not {"x", "out"} <= {*values.values()} or "..." in values.values():
        return None
    return Guess(f"f[(rows,)]({arguments_of(parameters, values)})", sure=False)


def guesses_for(
    parameters: Sequence[inspect.Parameter], *, positional: bool = False, words: Vocabulary = _PLAIN_WORDS
) -> list[Guess]:
    """The calls that some parameters allow; see ``guesses``."""
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and not any(_is_required(p) for p in parameters):
        return _WITHOUT_NAMES
    given = {} if words.operation is None else passed(parameters, words.operation)
    needed = [p for p in parameters if _is_required(p) or _is_dimension(p) or p.name in given]
    known = {p.name: argument_of(p.name, words) or given.get(p.name) for p in needed}
    known |= {name: text for name, text in given.items() if text == "False"}
    if not words.takes_matrix:
        # What is said of the matrix is said of the first operand, which stands in its place.
        first = next((text for text in known.values() if text and operands_in(text)), "x")
        known = {name: text and re.sub(r"\bx(?=\.)", first, text) for name, text in known.items()}
    place = _place_of_input(needed, known) if words.takes_matrix else ""
    is_loss = words.operation is not None and "head" in words.operation.parameters
    if is_loss and (linear := hidden_and_head([p.name for p in needed])) is not None:
        place, known[linear[1]] = linear[0], "head"
    if place is None:
        return []
    if place:
        known[place] = "x"
    unknown = [name for name, text in known.items() if text is None]
    if not unknown:
        ways = _alternatives(needed, known, words)
        return _written(parameters, ways, positional=positional, sure=True)
    if len(unknown) > 1:
        return []
    # The one that is left is an output, before or behind the input, or a dimension.
    (other,) = unknown
    ways = [known | {other: "out"}, *([known | {other: "x", place: "out"}] if place else []), known | {other: "-1"}]
    return _written(parameters, ways, positional=positional, sure=False)


def argument_of(parameter: str, words: Vocabulary) -> str | None:
    """The likeliest argument for a parameter; None where its name tells nothing."""
    name = parameter.lower().rstrip("_")
    if name in words.required:
        return words.required[name][0]
    return words.numbers.get(name) or words.known.get(name) or _ARGUMENTS.get(name)


def _alternatives(
    needed: Sequence[inspect.Parameter], known: Mapping[str, str | None], words: Vocabulary
) -> list[dict[str, str | None]]:
    """The arguments with all that the parameters' names may stand for, the likeliest first."""
    meant = {p.name: words.required.get(p.name.lower().rstrip("_"), ()) for p in needed}
    open_ones = [name for name, texts in meant.items() if known[name] in texts]
    choices = (chosen for chosen in product(*(meant[name] for name in open_ones)) if are_of_one_layout(chosen))
    return [{**known, **dict(zip(open_ones, chosen, strict=True))} for chosen in choices]


def argument_for(parameter: str) -> str:
    """The argument for a parameter in a wrapper to be completed by hand; ``...`` where its name tells nothing."""
    return "x" if parameter.lower().rstrip("_") in _INPUT else argument_of(parameter, _PLAIN_WORDS) or "..."


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
    found = (arguments_of(parameters, way, positional=positional) for way in ways)
    return [Guess(f"f({text})", sure) for text in found if text is not None]


def arguments_of(
    parameters: Sequence[inspect.Parameter], values: Mapping[str, str | None], *, positional: bool = False
) -> str | None:
    """The arguments of a call as text; None if it would need a keyword and may not have one (``positional``)."""
    words: list[str] = []
    by_name = False
    for p in parameters:
        text = values.get(p.name)
        by_name |= text in (None, "...")
        if text is None:
            continue
        is_named = (
            by_name or p.kind is p.KEYWORD_ONLY or (text in ("-1", "False", "None") and _can_be_named(p, positional))
        )
        if is_named and positional:
            return None
        by_name = is_named
        words.append(f"{p.name}={text}" if is_named else text)
    return ", ".join(words)


def _can_be_named(parameter: inspect.Parameter, positional: bool) -> bool:  # noqa: FBT001 - of a private function
    return (
        not positional and parameter.kind is not parameter.POSITIONAL_ONLY and parameter.default is not parameter.empty
    )
