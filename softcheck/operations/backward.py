"""The backward of softmax, y (g - sum y g), and of log-softmax, g - e^y sum g, for an output y and its gradient g.

Both operands are made from a matrix of logits: y is the output for it, rounded to the format, and g is drawn from each row's bits.
Their bounds are derived in docs/bounds.md#gradients, with the sizes of the terms as the unit, since the differences cancel.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles.arrays import Array, largest, module_of, quiet
from oracles.backward import LARGEST, backward, backward_ball
from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference, stated
from softcheck.numbers.expression import Number
from softcheck.numbers.model import EXACT, Model
from softcheck.operations.arithmetic import IN_FLOAT64
from softcheck.operations.bounds import Bounds, bounds_of, log_softmax_backward, softmax_backward
from softcheck.operations.drawn import by_blocks, of_elements, of_rows
from softcheck.operations.operation import Arguments, Exact, Named, Operand, Operation, beside, functions_of, of_matrix
from softcheck.operations.rules import NUMBERS
from softcheck.operations.softmax import SOFTMAX
from softcheck.operations.strides import like
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

_CENTRED = 8 * 2.0**-53
"""Error of a softmax's backward that takes one number from all of a row's gradients first, in float64, in units of y max |g|."""


def grads_of(x: "torch.Tensor") -> "torch.Tensor":
    """An output gradient for each row, in the matrix's dtype.

    Eight kinds take turns: two rows of drawn numbers, 1 throughout, another number throughout, and large numbers of alternating
    signs. Then one column alone, 1 beside -1 as a loss of pairs has it, and 0 throughout as for an ignored row. A row of equal
    logits has one number throughout, which is 1 in every second of them.
    """
    import torch

    drawn, columns = of_rows(x), x.shape[1]
    if not columns:
        return torch.zeros_like(x)
    varying = of_elements(drawn, columns).bitwise_right_shift_(39).to(torch.float64).sub_(2.0**23).mul_(2.0**-23)
    is_even = (x == x[:, :1]).all(dim=1, keepdim=True)
    kind, one = ((drawn >> 40) & 7)[:, None], ((drawn >> 8) % columns)[:, None]
    kind = torch.where(is_even, (drawn[:, None] >> 44) & 1, kind)
    signs = torch.where(torch.arange(columns, device=x.device) % 2 == 0, 100.0, -100.0).to(torch.float64)
    # Passes over all elements are few: constants and signs by row, and whether an element varies.
    constant = torch.where(kind == 0, 1.0, torch.where(kind == 1, varying[:, :1], 0.0))
    alternates, varies = (kind == 2).to(torch.float64), ((kind == 2) | (kind > 5)).to(torch.float64)
    found = torch.addcmul(torch.addcmul(constant, alternates, signs), varies, varying)
    alone = torch.where(kind == 3, varying.gather(1, one), torch.where(kind == 4, 1.0, found.gather(1, one)))
    found.scatter_(1, one, alone)
    other = (one + 1) % columns
    found.scatter_(1, other, torch.where(kind == 4, -1.0, found.gather(1, other)))
    return found.to(x.dtype)


def laid_out(x: "torch.Tensor", name: str, operand: "torch.Tensor") -> "torch.Tensor":
    """An output ``y`` that lies as the matrix does, or its gradient in a layout of its own.

    A gradient of one number throughout, or of one for each row, is that number expanded, with strides of 0, as autograd gives it behind
    a sum; so are both operands where the matrix is one row expanded. Else the gradient is packed for a packed matrix, and
    its rows are further apart for any other.
    """
    import torch

    if not operand.numel():
        return operand
    if name == "grad" and operand.dim() == 2:
        for part in (operand[:1, :1], operand[:, :1]):
            if bool((operand == part).all()):
                return part.contiguous().expand(operand.shape)
    if len(x) > 1 and x.stride(0) == 0:
        # What lies behind is not what is expanded.
        memory = torch.full_like(operand, math.nan, memory_format=torch.contiguous_format)
        memory[:1] = operand[:1]
        return memory[:1].expand(operand.shape)
    return beside(x, operand, math.nan) if name == "grad" else like(x, operand)


@dataclass(frozen=True, slots=True)
class _Backward:
    name: str
    named: Named = field(default_factory=dict)

    @property
    def is_logarithm(self) -> bool:
        return self.name == "log_softmax_backward"

    def make(self, x: "torch.Tensor", names: frozenset[str]) -> Mapping[str, Any]:
        makers: dict[str, Callable[[], Any]] = {
            "y": lambda: by_blocks(self.output, x),
            "grad": lambda: by_blocks(grads_of, x),
        }
        given = {name: of_matrix(self.named, name, x) for name in makers if name in names}
        return {name: makers[name]() if operand is None else operand for name, operand in given.items()}

    def output(self, x: "torch.Tensor") -> "torch.Tensor":
        """The output for a matrix. That of float64 is the host's on any device: devices differ in the last bits of float64."""
        import torch

        forward = torch.log_softmax if self.is_logarithm else torch.softmax
        if x.dtype == torch.float64:
            return forward(x.detach().cpu().contiguous(), dim=-1).to(x.device)
        return forward(x.detach().double(), dim=-1).to(x.dtype).contiguous()

    def placed(self, x: "torch.Tensor", names: frozenset[str]) -> Mapping[str, Any]:
        """The operands of a call, in the layouts that a kernel must take; of a tensor of more dimensions they have as many."""
        made = self.make(x if x.dim() == 2 else x.reshape(-1, x.shape[-1]), names)
        return {name: laid_out(x, name, operand.view(x.shape)) for name, operand in made.items()}

    def given(self, values: Array, fmt: Format) -> tuple[Array, Array]:
        """The outputs and gradients of a matrix of values, as a call gets them, in float64."""
        import torch

        is_array = isinstance(values, np.ndarray)
        x = torch.from_numpy(np.ascontiguousarray(values)) if is_array else values
        made = self.make(x.to(getattr(torch, fmt.name)), frozenset({"y", "grad"}))
        y, g = made["y"].double(), made["grad"].double()
        return (y.numpy(), g.numpy()) if is_array else (y, g)

    def formula(self, y: Array, g: Array, fmt: Format, model: Model) -> Number:
        """The gradient of outputs and their gradients, [rows, columns], as an arithmetic computes it."""
        outputs, grads = Number.given(y, model), Number.given(g, model)
        with quiet(y):
            if self.is_logarithm:
                return log_softmax_backward(outputs.power().number(), grads)
            found = softmax_backward(outputs, grads, fmt)
            is_exact = model is EXACT or fmt == FLOAT64
            return found if is_exact else replace(found, off=found.off + _CENTRED * y * largest(abs(g)))

    def answer(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        """In float64, with the errors that its arithmetic makes; for float64, in double words."""
        if fmt == FLOAT64:
            return self.by(backward, values, fmt)
        y, g = self.given(values, fmt)
        found = self.formula(y, g, FLOAT64, IN_FLOAT64)
        ordinary = np.isfinite(values.max(axis=1, keepdims=True, initial=-np.inf))
        weighs = np.isfinite(y) if self.is_logarithm else y > 0
        return stated(np.where(ordinary, found.value, np.nan), np.where(ordinary & weighs, found.error, 0.0))

    def prove(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        """By Arb."""
        return self.by(backward_ball, values, fmt)

    def by(self, oracle: Callable[..., Reference], values: Values, fmt: Format) -> Reference:
        """From an oracle, for ordinary rows."""
        y, g = self.given(values, fmt)
        ordinary = np.isfinite(values.max(axis=1, keepdims=True, initial=-np.inf))
        hidden = np.isneginf(y) & ordinary
        y = np.where(ordinary & ~hidden, y, 0.0)
        if max(np.abs(y[np.isfinite(y)]).max(initial=0.0), np.abs(g).max(initial=0.0)) > LARGEST:
            oracle = backward_ball
        found = oracle(y, g, is_logarithm=self.is_logarithm)
        return found.known(~ordinary | hidden, np.where(ordinary, g, np.nan))

    def scale(self, values: Array, _answers: Array, fmt: Format) -> Array:
        y, g = self.given(values, fmt)
        p, terms = (module_of(y).exp(y), abs(g)) if self.is_logarithm else (y, abs(y * g))
        return terms + p * terms.sum(axis=1, keepdims=True)

    def bounds(self, values: Array, exact: Scaled, answers: Array, model: Model) -> Bounds:
        y, g = self.given(values, exact.fmt)
        return bounds_of(self.formula(y, g, exact.fmt, model).error, answers, exact, model)

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        from softcheck.operations.torch_bounds import summing_error

        found = self.formula(*self.given(x, fmt), fmt, EXACT).value
        return Exact(found, summing_error(x.shape[1]) * 2.0**fmt.precision)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        return self.by_torch(self.make(x, frozenset({"y", "grad"})))

    def by_torch(self, given: "Mapping[str, torch.Tensor]") -> "torch.Tensor":
        import torch

        kernel = getattr(torch.ops.aten, f"_{self.name}_data")
        found: torch.Tensor = kernel(given["grad"], given["y"], -1, given["y"].dtype)
        return found


def _operation(name: str, unit: str, named: Named | None = None) -> Operation:
    of_rows_, matrix = _Backward(name, named or {}), ("rows", "columns")
    return replace(
        SOFTMAX,
        name=name,
        operands=(Operand("grad", matrix), Operand("y", matrix)),
        outputs=(Operand("dx", matrix),),
        relations=(),
        rules=NUMBERS,
        parameters={},
        with_parameters=None,
        arguments=Arguments(
            words={
                "grad grad_output grad_out grad_y dy do dout g gy output_grad grad_outputs": ("grad",),
                "y output outputs p probs softmax_output softmax_out s result": ("y",),
            },
            make=of_rows_.placed,
            trial=lambda x, _names: x,
        ),
        with_named=lambda operation, named: _operation(operation.name, operation.scale_text, named),
        scale_text=unit,
        gradient=None,
        sum_sign=0,
        takes_exponentials=of_rows_.is_logarithm,
        subtracts_maximum=not of_rows_.is_logarithm,
        **functions_of(of_rows_),
    )


SOFTMAX_BACKWARD = _operation("softmax_backward", "of y (|g| + sum |y g|)")
LOG_SOFTMAX_BACKWARD = _operation("log_softmax_backward", "of |g| + e^y sum |g|")
