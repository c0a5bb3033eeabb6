"""A call of a function as text, such as ``f(out, x)``, and its evaluation on a matrix. Imports torch when it is called."""

import ast
import builtins
import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from softcheck.calling.operands import Inputs
from softcheck.errors import NotCalledError, SoftcheckError, TooManyRowsError, UsageError, near_matches
from softcheck.operations.operation import Operation, Parameter
from softcheck.operations.registry import operation as operation_of
from softcheck.operations.strides import copied, lying_like, with_dims

if TYPE_CHECKING:
    import torch

PLAIN = "f(x)"
"""The call of a function that takes a matrix and returns its softmax."""

NAMES: dict[str, str] = {
    "x": "the input, [rows, columns]",
    "x1": "a row of the input, [columns]; the call is made for each",
    "x3": "the input as [batch, rows, columns]",
    "x4": "the input as [batch, heads, rows, columns]",
    "x5": "the input with five dimensions",
    "out": "memory of its own for the answer, of the input's shape",
    "copy": "a copy of the input, in which the answer is computed",
    "rows": "the number of rows",
    "columns": "the number of columns",
    "block": "the power of two that is no smaller than columns",
    "mask": "bool of the input's shape, True where the input is hidden: what is -inf in a case",
    "keep": "bool of the input's shape, False where the input is hidden",
    "bias": "what is added to the input: -inf where it is hidden",
    "target": "the column of each row that is asked for, int64 [rows]",
    "y": "an output whose gradient is asked for, made from the case, [rows, columns]",
    "grad": "the gradient of that output, [rows, columns]",
    "q": "queries made from the case, [batch, heads, queries, head_dim]",
    "k": "keys whose first elements are the case's logits, [batch, heads, keys, head_dim]",
    "v": "values made from the case, [batch, heads, keys, head_dim]",
    **{f"{name}3": f"{name} as [heads of all batches, length, head_dim]" for name in "qkv"},
    **{f"{name}_blhd": f"{name} as [batch, length, heads, head_dim]" for name in "qkv"},
    "sinks": "the declared sink of each query head, float32 [heads]",
    "ignore_index": "the target of rows that are to be ignored",
    "label_smoothing": "the share of each target that all columns have",
    "weight": "the weight of each column's class, [columns]",
    "head": "an identity matrix in the place of the head, [columns, columns], so that the logits are the case's; no other head, nor a gradient by it, is judged",
    "z_loss": "the factor of the squared log-sum-exp in each loss",
    "window": "the keys that a query sees up to its own place",
    "softcap": "the number c of c tanh(x / c)",
    "base": "the base of the answer's logarithms",
    "reduction": "'mean' or 'sum', over the rows of a matrix that is made of one row of the case",
    "scale": "the number that the declaration's parameters give",
    "temperature": "1 / scale",
}
"""Names in a call beside ``f``, ``torch`` and ``triton``, and their meaning."""

_HEADS = ("q", "q3", "q_blhd", "k", "k3", "k_blhd", "v", "v3", "v_blhd")

OPERANDS = frozenset({"mask", "keep", "bias", "target", "weight", "head", "y", "grad", "sinks", *_HEADS})
"""Names of what an operation takes beside the matrix."""

_IN_ITS_PLACE = ("y", "grad", *_HEADS)
"""Names of operands of which a call may hold one in place of the input."""

_TAKEN = ("x5", "x4", "x3", "x1", "x", "copy", *_IN_ITS_PLACE)
"""Names of the input, and of what a call may hold in its place."""

_MODULES = ("torch", "triton")
"""Modules that a call may name."""
_BUILTINS = frozenset(dir(builtins))

MOST_ROWS = 4096
"""Rows of the largest input of a function that takes one row."""


class Form:
    """A call as text, evaluated on each input, of which an operation says what stands beside it: softmax until ``of`` says another.

    The answer is the value of the call; where that is a tuple, a list, a dictionary or a dataclass, its first tensor of the
    input's shape; where it is None, ``out`` or ``copy``.
    """

    def __init__(
        self,
        text: str,
        constants: Mapping[str, Any] | None = None,
        *,
        part: str = "",
        beside: Mapping[str, bool] | None = None,
    ) -> None:
        """Reads a call, with further names in it and with what a trial has shown of a tuple. Raises UsageError if it is no call of f on the input."""
        self._constants = dict(constants or {})
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, UnicodeEncodeError) as error:
            raise UsageError(f"the call {text!r} is no Python expression: {error}; write it as {PLAIN}") from None
        nodes = list(ast.walk(tree))
        self.names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
        if "f" not in self.names or not self.names & {*_TAKEN}:
            raise UsageError(
                f"the call {text!r} does not call f on the input; write it as {PLAIN}, with these names: {', '.join(NAMES)}"
            )
        made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        if unknown := sorted(self.names - {"f", *NAMES, *self._constants, *made, *_MODULES, *_BUILTINS}):
            raise UsageError(
                f"the call {text!r} has {unknown[0]!r}, which is no name in it; {near_matches(unknown[0], [*NAMES, *_MODULES])}"
            )
        self.makes_instance = not any(
            isinstance(node, ast.Name) and node.id in (*_TAKEN, "out")
            for call in nodes
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "f"
            for argument in (*call.args, *(word.value for word in call.keywords))
            for node in ast.walk(argument)
        )
        """True if f stands for a class, whose instance takes the input: ``f(columns)(x)``."""
        self._text = ast.unparse(tree)
        self.part = part
        """What picks the answer from a tuple or the like, such as ``[0]``; empty if no trial has shown one."""
        self._is_tried = False
        self._is_timed = False
        self.beside: dict[str, bool] = dict(beside or {})
        """The tensors beside the answer in a tuple or the like, by what picks them, with True for one number for each row."""
        self._code = compile(tree, "<call>", "eval")

    @cached_property
    def operation(self) -> Operation:
        """The operation that gives calls the values beside the matrix; loading one imports the oracles."""
        return operation_of()

    def of(self, operation: Operation) -> "Form":
        """Returns the call with the values that an operation takes beside the matrix; raises UsageError for an operand of another."""
        words = {} if operation.arguments is None else operation.arguments.words
        own = {name for names in words.values() for name in names if name in OPERANDS}
        if foreign := sorted((self.names & OPERANDS) - own):
            is_declared = foreign[0] in operation.parameters
            step = f"declare it with --declare {foreign[0]}=1" if is_declared else "name the operation with --operation"
            raise UsageError(
                f"the call {self._text!r} has {foreign[0]!r}, and {operation.name} takes {', '.join(sorted(own)) or 'none'} "
                f"beside its input; write another call, or {step}"
            )
        return self._with(operation=operation)

    def timed(self) -> "Form":
        """Returns the call without answers of heads made a matrix, which would take time."""
        return self._with(_is_timed=True)

    def with_part(self, part: str, beside: Mapping[str, bool]) -> "Form":
        """Returns the call with what a trial has shown of a tuple or the like."""
        return self._with(part=part, beside=dict(beside))

    def _with(self, **changed: Any) -> "Form":
        found = copy.copy(self)
        vars(found).update(changed)
        return found

    @property
    def text(self) -> str:
        """The call with its constants' values, and with the answer's place where a trial has shown a tuple or the like."""
        return self.without_part + self.part

    @property
    def without_part(self) -> str:
        """The call with its constants' values, without the answer's place in what it returns."""
        shown = {name: repr(value) for name, value in self._constants.items()}
        return re.sub(r"\w+", lambda word: shown.get(word[0], word[0]), self._text)

    def __call__(self, function: Callable[..., Any], inputs: Inputs, options: Mapping[str, Any]) -> Any:
        """Calls a function on what it is given for a matrix, with further keyword arguments, and returns the answer in the matrix's shape.

        A value that is no such answer is returned as it is.
        """
        called = partial(function, **options) if options else function
        if self.operation.gradient_in_place:
            return _overwriting(lambda copy: self._of_rows(called, self._on(copy, inputs)), inputs.seen)
        return self._of_rows(called, inputs)

    def tried(self, function: Callable[..., Any], x: "torch.Tensor") -> "tuple[Any, Form]":
        """Calls a function with NaN in ``out``; returns the answer, and the call that picks the same part of a tuple from now on."""
        found = self._with(_is_tried=True)
        answer = found(function, self.inputs(x), {})
        return answer, found._with(_is_tried=False)  # noqa: SLF001 - of the same class

    def inputs(self, x: "torch.Tensor") -> Inputs:
        """Makes what a function is given for a matrix: in one call, or in one for each row where it takes a row or has one answer for a matrix.

        Raises TooManyRowsError for more than ``MOST_ROWS`` rows there, and NotCalledError for an error of the operands' maker.
        """
        import torch
        from torch.utils._python_dispatch import _disable_current_modes

        seen, matrices = x, self._matrices(x)
        # Whoever records the operations of a call means the function's.
        with _disable_current_modes():
            made = [self._operands(each) for each in matrices]
            standing_in = [each.pop("x") for each in made if "x" in each]
            if standing_in:
                whole = standing_in[0] if len(made) == 1 else torch.stack(standing_in)
                seen = lying_like(x, whole.view(x.shape))
                matrices = self._matrices(seen)
        return Inputs(x, seen, tuple({**each, "x": matrix} for each, matrix in zip(made, matrices, strict=True)))

    def _on(self, x: "torch.Tensor", inputs: Inputs) -> Inputs:
        """Returns inputs with another tensor in the matrix's place."""
        calls = zip(inputs.calls, self._matrices(x), strict=True)
        return replace(inputs, seen=x, calls=tuple({**call, "x": each} for call, each in calls))

    def _matrices(self, x: "torch.Tensor") -> "Sequence[torch.Tensor]":
        """The matrix as each call gets it: all of it, or its rows, of which each has a call of its own."""
        matrix = self.operation.matrix
        given = x if matrix is None else x.view(*x.shape[:-1], *matrix(x.shape[-1]))
        if "x1" not in self.names and not self._has_one_answer:
            return [given]
        if x.shape[0] > MOST_ROWS:
            raise TooManyRowsError(
                f"{x.shape[0]} rows for a function of one row, which is called with up to {MOST_ROWS}"
            )
        return [*given]

    @property
    def _has_one_answer(self) -> bool:
        """True if a call has one answer for a matrix."""
        return self.operation.matrix is not None and self.operation.answers_rows

    def _of_rows(self, function: Callable[..., Any], inputs: Inputs) -> Any:
        """Makes the calls, and joins the answers for rows to that for the matrix."""
        import torch

        x = inputs.seen
        answers = [self._answer_to(inputs.noted(function), call, inputs) for call in inputs.calls]
        if "x1" not in self.names and not self._has_one_answer:
            is_answer = self.operation.matrix and getattr(answers[0], "shape", None) == inputs.calls[0]["x"].shape
            return answers[0].reshape(x.shape) if is_answer else answers[0]
        row = inputs.calls[0]["x"].shape if inputs.calls else x.shape[1:]
        due = torch.Size([1]) if self._has_one_answer else row
        other = next((a for a in answers if not isinstance(a, torch.Tensor) or a.shape != due), None)
        if other is not None:
            return other
        return torch.stack(answers).view(len(x), due.numel()) if answers else x.new_empty(0, due.numel())

    def _answer_to(self, function: Callable[..., Any], made: Mapping[str, Any], inputs: Inputs) -> Any:
        import torch

        operation, x = self.operation, made["x"]
        given = self._given(x)
        dims = next((int(name[1:]) for name in ("x3", "x4", "x5") if name in self.names), None)
        for name, value in ((name, value) for name, value in made.items() if name != "x"):
            is_split = dims and isinstance(value, torch.Tensor) and value.dim() == x.dim() and name != "head"
            given[name] = with_dims(value, dims) if dims and is_split else value
        operand = next(name for name in _TAKEN if name in self.names)
        shape: Any = getattr(given[operand], "shape", None)
        if shape is not None:
            shape = self._shape_due(shape, operand, x.shape[-1])
        if "out" in self.names:
            given["out"] = torch.empty(shape, dtype=x.dtype, device=x.device)
            if self._is_tried:
                given["out"].fill_(math.nan)
        given["f"] = function
        places: Mapping[str, Any] = {} if inputs.are_held else _Views(given)
        value = eval(self._code, {**self._constants, **given}, places)  # noqa: S307 - the expression is the user's own
        answer = self._answer(value, given, shape)
        if not isinstance(answer, torch.Tensor) or shape is None:
            return answer
        if operation.answers_elements or operation.matrix is not None:
            place = x.shape if shape else (1,)
            return answer.reshape(place) if answer.shape in (shape, place) else answer
        of_rows = operation.answers_rows
        is_answer = answer.shape == shape or (of_rows and answer.shape in ((*shape, 1), (math.prod(shape),)))
        if operand.endswith("_blhd") and not of_rows:
            answer = answer.transpose(1, 2)
        if is_answer and not of_rows and self._is_timed:
            # A matrix would be a copy where heads lie apart, whose time is not the function's.
            return answer
        return answer.reshape(*x.shape[:-1], operation.output_shape(1, x.shape[-1])[1]) if is_answer else answer

    def _shape_due(self, shape: "torch.Size", operand: str, columns: int) -> "torch.Size | tuple[int, ...]":
        """The shape of an answer, by the shape of the operand that is the matrix, or that stands in its place but for its last dimension."""
        operation = self.operation
        if operation.answers_elements:
            return shape
        if operation.matrix is not None:
            return () if operation.answers_rows else shape
        if operation.answers_rows:
            return (shape[0], shape[2], shape[1]) if operand.endswith("_blhd") else shape[:-1]
        parts = operation.part_shape(columns)
        return (*shape[:-1], *(parts[-1:] if operand in _IN_ITS_PLACE else parts))

    def _given(self, x: "torch.Tensor") -> dict[str, Any]:
        """The values of those names in the call that follow from what stands in the matrix's place."""
        import torch
        import triton

        kept = 2 if self.operation.matrix and not self.operation.answers_rows else 1
        makers: dict[str, Callable[[], Any]] = {
            **dict.fromkeys(("x", "x1"), lambda: x),
            **{f"x{dims}": partial(with_dims, x, dims, kept) for dims in (3, 4, 5)},
            "copy": lambda: copied(x.detach()),
            "rows": lambda: math.prod(x.shape[:-1]),
            "columns": lambda: x.shape[-1],
            "block": lambda: triton.next_power_of_2(max(1, x.shape[-1])),
            "torch": lambda: torch,
            "triton": lambda: triton,
        }
        given = {name: make() for name, make in makers.items() if name in self.names}
        given |= {name: _plain(name, value) for name, value in self.operation.parameters.items()}
        return given | ({"temperature": 1.0 / given["scale"]} if "scale" in given else {})

    def _operands(self, x: "torch.Tensor") -> dict[str, Any]:
        """Returns the operands of a call by name, and as "x" what stands in the matrix's place. Raises NotCalledError for an error of their maker."""
        import torch

        if self.operation.arguments is None or not isinstance(x, torch.Tensor):
            return {}
        try:
            return dict(self.operation.arguments.make(x, self.names))
        except Exception as error:
            from softcheck.calling.call import is_out_of_memory, is_usable

            # Work that a variant left behind can ruin the device, which shows here first.
            if isinstance(error, SoftcheckError) or is_out_of_memory(error) or not is_usable(x.device):
                raise
            raise NotCalledError(
                f"softcheck failed to make the operands of this call: {type(error).__name__}: {error}; "
                "the variant was not called. Please report this message"
            ) from error

    def _answer(self, value: Any, given: Mapping[str, Any], shape: Any) -> Any:
        import torch

        if parts := parts_of(value):
            fitting = (place for place, one in parts.items() if isinstance(one, torch.Tensor) and one.shape == shape)
            part = self.part or next(fitting, None)
            if part not in parts:
                return value
            if self._is_tried:
                # Only a trial decides: on other inputs another part may have the shape by chance.
                self.part = part
                due = math.prod(shape if self.operation.answers_rows else shape[:-1])
                self.beside = {
                    place: one.numel() == due
                    for place, one in parts.items()
                    if place != part and isinstance(one, torch.Tensor) and one.is_floating_point()
                }
            return parts[part]
        if "out" in self.names and not isinstance(value, torch.Tensor):
            return given["out"]
        if "out" in self.names and self._is_tried and bool(given["out"].isnan().all()):
            # What is returned was made without this memory, which the function may have taken for an operand.
            return None
        return given["copy"] if value is None and "copy" in self.names else value


def _overwriting(call: "Callable[[torch.Tensor], Any]", x: "torch.Tensor") -> Any:
    """Calls on a copy of the input, which the call may overwrite with the gradient for an output gradient of 1, and returns the answer.

    If the input asks for a gradient and the answer carries none, the answer is given one: the output gradient times what the call
    left in the copy.
    """
    import torch

    copy = copied(x)
    answer: Any = call(copy)
    if not copy.requires_grad or not isinstance(answer, torch.Tensor) or answer.requires_grad:
        return answer

    class WithGradient(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, _x: torch.Tensor) -> Any:
            return answer.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(_ctx: Any, grad: torch.Tensor) -> Any:
            return (grad * copy.detach()).to(x.dtype)

    found: torch.Tensor = WithGradient.apply(x)  # type: ignore[no-untyped-call]
    return found


class _Views(dict[str, Any]):
    """Values by name, each tensor beside the matrix as a view that nobody else holds."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value.view_as(value) if name in OPERANDS and hasattr(value, "view_as") else value


def are_of_one_layout(names: Sequence[str]) -> bool:
    """True if all queries, keys and values among the names of operands are laid out alike."""
    return len({name[1:] for name in names if name in _HEADS}) <= 1


def _plain(name: str, number: Parameter) -> Parameter:
    """The parameter, as an integer if it is one: ``ignore_index`` always is, and others from 2 on. A word is left as it is."""
    if isinstance(number, str):
        return number
    is_integer = math.isfinite(number) and number == int(number)
    return int(number) if is_integer and (name == "ignore_index" or abs(number) > 1) else number


def parts_of(value: Any) -> dict[str, Any]:
    """Returns the parts of a tuple, list, dictionary or dataclass, each with the text that picks it."""
    if isinstance(value, tuple | list):
        return {f"[{i}]": one for i, one in enumerate(value)}
    if isinstance(value, Mapping):
        return {f"[{name!r}]": one for name, one in value.items()}
    return {f".{each.name}": getattr(value, each.name) for each in fields(value)} if is_dataclass(value) else {}


def names_in(text: str) -> frozenset[str]:
    """The words in the text of a call, names of operands and parameters among them."""
    return frozenset(re.findall(r"\w+", text))


def operands_in(text: str) -> frozenset[str]:
    """The names of operands in the text of a call."""
    return OPERANDS & names_in(text)
