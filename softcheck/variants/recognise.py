"""Guesses how a function, a class or a module is called on a matrix, from the names of its parameters. Imports torch when it is needed."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.forms import PLAIN, are_of_one_layout, operands_in
from softcheck.variants.meanings import OTHERWISE, PARAMETERS, SCALE, TEMPERATURE, hidden_and_head, passed

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

_INPUTS = "x input logits inp scores self data input_ptr x_ptr in_ptr a src tensor attention_scores attn_scores"
_INPUT = frozenset(_INPUTS.split())


@dataclass(frozen=True, slots=True)
class Guess:
    """A call that may be the function's. ``sure`` is False where the names of its parameters do not tell it."""

    text: str
    sure: bool = True
    is_last_resort: bool = False
    """True if it is tried only where no other call answers."""


def _words_of(operation: Operation) -> Mapping[str, Sequence[str]]:
    """Returns the arguments that a parameter of a name may get in a call that computes an operation, the likeliest first."""
    found: dict[str, Sequence[str]] = {name: (text,) for name, text in _ARGUMENTS.items()}
    given, usual = operation.parameters, operation_of(operation.name).parameters
    changed = {name for name, value in given.items() if value != usual.get(name, value)}
    changed |= {"scale"} if given.get("scale", 1.0) != 1 else set()
    known = [one for one in PARAMETERS if one.parameter in given and one.text != "True"]
    found |= {name: (one.text,) for one in known for name in one.names.split() if name not in OTHERWISE}
    found |= {name: (one.text,) for one in PARAMETERS if one.parameter in changed for name in one.names.split()}
    words = {} if operation.arguments is None else operation.arguments.words
    return found | {name: texts for names, texts in words.items() for name in names.split()}


_WITHOUT_NAMES = [Guess(PLAIN), *(Guess(text, sure=False) for text in ("f(x, -1)", "f(x, out)", "f(out, x)"))]
"""The calls of a function that has no signature to read, such as one written in C."""


def guesses(function: Callable[..., Any], operation: Operation) -> list[Guess]:
    """The calls that a function's parameters allow for an operation, the likeliest first; none where they can't be guessed."""
    parameters = parameters_of(function)
    return _WITHOUT_NAMES if parameters is None else _guesses_for(parameters, operation)


def parameters_of(function: Any) -> list[inspect.Parameter] | None:
    """The parameters of a function, of an operator of torch, or of a Triton kernel, where tuned ones have a default; None without a signature to read."""
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
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [each.replace(default=None) if each.name in tuned else each for each in found]


def parameters_to_make(kind: Any) -> list[inspect.Parameter]:
    """The parameters of a class whose instances are called; none of anything else, or without a signature to read."""
    is_made = inspect.isclass(kind) and not hasattr(kind, "setup_context")
    return (parameters_of(kind) or []) if is_made else []


def _instance_guesses(kind: type, method: Callable[..., Any], operation: Operation, *, is_module: bool) -> list[Guess]:
    """The calls of a class whose instances need arguments; none where these can't be guessed."""
    needed = [p for p in parameters_of(kind) or () if is_required(p) or _is_dimension(p)]
    known = {p.name: _argument_of(p.name, _words_of(operation)) for p in needed}
    if not all(known.values()):
        return []
    made = f"f({arguments_of(needed, known)})"
    moved = ".to(x.device).eval()" if is_module else ""
    return [
        Guess(f"{made}{moved}{guess.text[1:]}", guess.sure)
        for guess in _guesses_for(list(inspect.signature(method).parameters.values())[1:], operation)
    ]


def kernel_guess(kernel: Any) -> Guess | None:
    """The launch of a Triton kernel with one program for each row; None where an argument's name tells nothing."""
    parameters = parameters_of(kernel) or []
    values = {p.name: argument_for(p.name) for p in parameters if is_required(p)}
    if not {"x", "out"} <= {*values.values()} or "..." in values.values():
        return None
    return Guess(f"f[(rows,)]({arguments_of(parameters, values)})", sure=False)


def _guesses_for(
    parameters: Sequence[inspect.Parameter], operation: Operation, *, positional: bool = False
) -> list[Guess]:
    """The calls that some parameters allow, without keywords if ``positional``, as the ``apply`` of an autograd function needs it."""
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and not any(is_required(p) for p in parameters):
        return _WITHOUT_NAMES
    words, takes_matrix = _words_of(operation), "x" in {each.name for each in operation.operands}
    given = passed(parameters, operation)
    needed = [p for p in parameters if is_required(p) or _is_dimension(p) or p.name in given]
    known = {p.name: _argument_of(p.name, words) or given.get(p.name) for p in needed}
    known |= {name: text for name, text in given.items() if text == "False"}
    if not takes_matrix:
        # What is said of the matrix is said of the first operand, which stands in its place.
        first = next((text for text in known.values() if text and operands_in(text)), "x")
        known = {name: text and re.sub(r"\bx(?=\.)", first, text) for name, text in known.items()}
    place = _place_of_input(needed, known) if takes_matrix else ""
    if "head" in operation.parameters and (linear := hidden_and_head([p.name for p in needed])) is not None:
        place, known[linear[1]] = linear[0], "head"
    if place is None:
        return []
    if place:
        known[place] = "x"
    unknown = [name for name, text in known.items() if text is None]
    if len(unknown) > 1:
        return []
    ways = _alternatives(needed, known, words)
    if unknown:
        # The one that is left is an output, before or behind the input, or a dimension.
        (other,) = unknown
        ways = [known | {other: "out"}, *([known | {other: "x", place: "out"}] if place else []), known | {other: "-1"}]
    found = (arguments_of(parameters, way, positional=positional) for way in ways)
    return [Guess(f"f({text})", sure=not unknown) for text in found if text is not None]


def _argument_of(parameter: str, words: Mapping[str, Sequence[str]]) -> str | None:
    """The likeliest argument for a parameter; None where its name tells nothing."""
    return next(iter(words.get(parameter.lower().rstrip("_"), ())), None)


def _alternatives(
    needed: Sequence[inspect.Parameter], known: Mapping[str, str | None], words: Mapping[str, Sequence[str]]
) -> list[dict[str, str | None]]:
    """The arguments with all that the parameters' names may stand for, the likeliest first."""
    meant = {p.name: words.get(p.name.lower().rstrip("_"), ()) for p in needed}
    open_ones = [name for name, texts in meant.items() if known[name] in texts]
    choices = (chosen for chosen in product(*(meant[name] for name in open_ones)) if are_of_one_layout(chosen))
    return [{**known, **dict(zip(open_ones, chosen, strict=True))} for chosen in choices]


def argument_for(parameter: str) -> str:
    """The argument for a parameter in a wrapper to be completed by hand; ``...`` where its name tells nothing."""
    name = parameter.lower().rstrip("_")
    return "x" if name in _INPUT else _ARGUMENTS.get(name, "...")


def is_required(parameter: inspect.Parameter) -> bool:
    """True if a call without the parameter fails."""
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _is_dimension(parameter: inspect.Parameter) -> bool:
    """True if a parameter names a dimension and is another one than the last if it is left out."""
    return parameter.name.lower() in _DIMENSION.split() and parameter.default not in (-1, parameter.empty)


def _place_of_input(needed: Sequence[inspect.Parameter], known: dict[str, str | None]) -> str | None:
    """The parameter that takes the input: one with such a name, else the first whose name tells nothing, else the first."""
    named = [p.name for p in needed if p.name.lower() in _INPUT]
    unknown = [p.name for p in needed if known[p.name] is None]
    by_place = [p.name for p in needed if p.kind is not p.KEYWORD_ONLY]
    return next(iter([*named, *unknown, *by_place, *(p.name for p in needed)]), None)


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
        may_be_named = not positional and p.kind is not p.POSITIONAL_ONLY and p.default is not p.empty
        is_named = by_name or p.kind is p.KEYWORD_ONLY or (text in ("-1", "False", "None") and may_be_named)
        if is_named and positional:
            return None
        by_name = is_named
        words.append(f"{p.name}={text}" if is_named else text)
    return ", ".join(words)


def callable_of(found: Any, operation: Operation) -> tuple[Callable[..., Any], list[Guess]]:
    """Returns the function behind a class, a module or an object, and the calls that may be its own; raises TypeError where there are none."""
    import torch

    if inspect.isclass(found):
        return _callable_of_class(found, operation)
    if isinstance(found, torch.nn.Module):
        return found.eval(), guesses(found.forward, operation)
    if not callable(found):
        method = getattr(found, "forward", None) or getattr(found, "apply", None)
        if method is None:
            raise TypeError("its objects can't be called and have no method forward or apply")
        return method, guesses(method, operation)
    kind = getattr(found, "__self__", None)
    if inspect.isclass(kind) and issubclass(kind, torch.autograd.Function):
        return _callable_of_class(kind, operation)
    # Torch's convention: a name that ends in an underscore is of an operation in place.
    in_place = re.fullmatch(r"[a-z]\w*[^_]_", str(getattr(found, "__name__", "")))
    return found, [
        Guess(g.text.replace(PLAIN, "f(copy)"), g.sure) if in_place else g for g in guesses(found, operation)
    ]


def _callable_of_class(kind: type, operation: Operation) -> tuple[Callable[..., Any], list[Guess]]:
    import torch

    if issubclass(kind, torch.autograd.Function):
        parameters = list(inspect.signature(kind.forward).parameters.values())
        own = parameters[1:] if kind.setup_context is torch.autograd.Function.setup_context else parameters
        return kind.apply, _guesses_for(own, operation, positional=True)
    is_module = issubclass(kind, torch.nn.Module)
    if "apply" in vars(kind) and not is_module:
        apply = getattr(kind, "apply")  # noqa: B009 - a type has none by itself
        return apply, guesses(apply, operation)
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):
        return callable_of(kind(), operation)
    # An instance is made where the parameters, if it needs any, name a dimension.
    dims = {p.name: -1 for p in signature.parameters.values() if p.name in ("dim", "axis") and p.default != -1}
    if all(
        p.name in dims for p in signature.parameters.values() if is_required(p) and p.kind is p.POSITIONAL_OR_KEYWORD
    ):
        return callable_of(kind(**dims), operation)
    method = getattr(kind, "__call__" if "__call__" in vars(kind) else "forward", None)
    if method is None or not (ways := _instance_guesses(kind, method, operation, is_module=is_module)):
        raise TypeError(f"{kind.__name__}{signature} needs arguments that can't be guessed")
    return kind, ways


def is_triton_kernel(found: Any) -> bool:
    """True for a function that Triton has decorated, which is launched and not called."""
    from triton.runtime.jit import KernelInterface

    return isinstance(found, KernelInterface)
