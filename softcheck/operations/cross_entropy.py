"""Cross-entropy of each row of logits and its target, or of a matrix: log(sum exp x) - x_t, 0 where the target is to be ignored.

Options, each a parameter: ``label_smoothing``, class weights (``weight``), a z-loss, a scale and a soft cap of the logits, the mean or the
sum of a matrix's rows, the gradient in the input's place, and a promised loss for targets that are no columns. With ``head`` the matrix is hidden states, of
which a function makes the logits by an identity.

The bound is derived in docs/bounds.md, sections 23 and 28. With m = max x and L = log(sum exp(x - m)), E_L as in section 19, and without
options:

    |y - r| <= E_L + rho (4 (|m| + |x_t|) + 2 |r|) + half an ulp of |r|, if the result is rounded to a narrower format

Errors are counted in ulp(max(|m| + L + |x_t|, 1)), since most kernels subtract x_t from m + L, which is rounded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oracles.formats import FLOAT64, Format, Values
from oracles.reference import FullyMasked, Reference
from softcheck.errors import UsageError, near_matches
from softcheck.operations import scaled as scales
from softcheck.operations import softcap as caps
from softcheck.operations import weights
from softcheck.operations.bounds import Bounds, Model
from softcheck.operations.expression import module_of
from softcheck.operations.log_softmax import LOG_SOFTMAX
from softcheck.operations.logsumexp import bounds_of, shown
from softcheck.operations.operation import Exact, Named, Operand, Operation
from softcheck.operations.reduction import REDUCTIONS, Reduced, batch_of
from softcheck.operations.row_gradient import gradient_of_rows
from softcheck.operations.row_loss import RowLoss
from softcheck.operations.rules import FINITE_WHERE_DUE, NAN_WHERE_DUE, WITHIN_BOUND
from softcheck.operations.targets import INVALID, UNTRIED, Targets
from softcheck.operations.ulp import Scaled

if TYPE_CHECKING:
    import torch

NO_INDEX = float("-inf")
"""The ``ignore_index`` of a cross-entropy that ignores no row."""


_WIDEST_HEAD = 1024
"""Columns of the widest row whose logits an identity makes: the head has as many rows."""


class _EachRow:
    """The cross-entropy with one loss for each row, as the functions of an operation."""

    def __init__(self, losses: RowLoss) -> None:
        self.losses = losses

    def answer(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.losses.answer(values, fmt)

    def prove(self, values: Values, fmt: Format, _masked: FullyMasked) -> Reference:
        return self.losses.prove(values, fmt)

    def scale(self, values: Values, _answers: Values, _fmt: Format) -> Values:
        found: Values = module_of(values).clip(self.losses.scale(values), 1.0, None)
        return found

    def bounds(self, values: Values, exact: Scaled, answers: Values, constants: Model) -> Bounds:
        return bounds_of(self.losses.errors(values, answers, constants), answers, exact, constants)

    def on_device(self, x: "torch.Tensor", fmt: Format) -> Exact:
        return self.losses.on_device(x, fmt)

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        return torch_losses(self.losses, x)[:, None]


def torch_losses(
    losses: RowLoss, x: "torch.Tensor", target: "torch.Tensor | None" = None, weight: "torch.Tensor | None" = None
) -> "torch.Tensor":
    """Computes the losses of rows as torch does, [rows]; targets and weights are made of the matrix where none are given."""
    import torch

    target = losses.targets.of_tensor(x) if target is None else target
    if weight is None and losses.is_weighted:
        weight = weights.of_tensor(x)
    ignored = -100 if losses.targets.ignored is None else losses.targets.ignored
    left_out = losses.targets.left_out(target, x.shape[1])
    logits = x if losses.logit_scale == 1 else x * losses.logit_scale
    logits = losses.softcap * torch.tanh(logits / losses.softcap) if losses.softcap else logits
    found = torch.nn.functional.cross_entropy(
        logits,
        target.masked_fill(left_out, ignored) if losses.targets.invalid else target,
        weight,
        reduction="none",
        ignore_index=ignored,
        label_smoothing=losses.smoothing,
    )
    if losses.z_loss:
        found = found + (losses.z_loss * torch.logsumexp(logits, -1) ** 2).masked_fill(left_out, 0.0)
    if losses.targets.invalid != "nan":
        return found
    return found.masked_fill(left_out & (target != losses.targets.ignored), float("nan"))


def _check(ignore_index: float, label_smoothing: float, z_loss: float, flags: dict[str, float]) -> None:
    """Checks the numbers among the parameters.

    Raises UsageError for an ``ignore_index`` that is no integer, a ``label_smoothing`` outside [0, 1), a
    ``z_loss`` outside [0, 1], and flags other than 0 and 1.
    """
    if ignore_index != NO_INDEX and not float(ignore_index).is_integer():
        raise UsageError(
            f"the ignore_index is {ignore_index:g}; expected an integer, such as -100, or a column that stands for padding"
        )
    if not 0.0 <= label_smoothing < 1.0:
        raise UsageError(f"the label_smoothing is {label_smoothing:g}; expected at least 0 and less than 1")
    if not 0.0 <= z_loss <= 1.0:
        raise UsageError(
            f"the z_loss is {z_loss:g}; expected a factor of the squared log-sum-exp from 0 to 1, such as 1e-4"
        )
    for name, flag in flags.items():
        if flag not in (0.0, 1.0):
            raise UsageError(f"{name} is {flag!r}; expected 1 if the function has it, else 0")


def _check_words(reduction: str, invalid_target: str) -> None:
    """Raises UsageError for other words than are known, and for the loss of a single row beside a mean or a sum."""
    for name, word, known in (("reduction", reduction, REDUCTIONS), ("invalid_target", invalid_target, INVALID)):
        if word not in known:
            raise UsageError(f"the {name} is {word!r}; {near_matches(str(word), [each for each in known if each])}")
    if invalid_target not in ("", UNTRIED) and reduction != "none":
        raise UsageError(
            f"invalid_target={invalid_target} says the loss of one row, and the reduction is {reduction}; leave one out"
        )


def _of(
    *,
    ignore_index: float = NO_INDEX,
    label_smoothing: float = 0.0,
    weight: float = 0.0,
    head: float = 0.0,
    z_loss: float = 0.0,
    scale: float = 1.0,
    softcap: float = 0.0,
    reduction: str = "none",
    invalid_target: str = "",
    gradient_in_place: float = 0.0,
    named: Named | None = None,
) -> Operation:
    """The cross-entropy with these parameters.

    Raises UsageError as ``_check``, ``_check_words`` and the checks of a scale and a soft cap do.
    """
    _check(
        ignore_index, label_smoothing, z_loss, {"weight": weight, "head": head, "gradient_in_place": gradient_in_place}
    )
    _check_words(reduction, invalid_target)
    scales.check(scale)
    caps.check(softcap)
    ignored = None if ignore_index == NO_INDEX else int(ignore_index)
    losses = RowLoss(
        targets=Targets(ignored, "" if invalid_target == UNTRIED else invalid_target, named or {}),
        logit_scale=scale,
        smoothing=label_smoothing,
        z_loss=z_loss,
        softcap=softcap,
        is_weighted=bool(weight),
        has_head=bool(head),
    )
    judged: _EachRow | Reduced = _EachRow(losses) if reduction == "none" else Reduced(losses, reduction, torch_losses)
    is_plain = losses.is_plain and reduction == "none"

    def narrow(values: Values, fmt: Format, masked: FullyMasked) -> Reference:
        if fmt == FLOAT64 and softcap:
            raise UsageError("a soft cap is judged in formats of up to 32 bits; leave float64 out of the dtypes")
        return judged.answer(values, fmt, masked)

    def gradient_terms(values: Values, constants: Model) -> Any:
        return judged.gradient(values, constants) if isinstance(judged, Reduced) else losses.gradient(values, constants)

    def by_torch(given: "Mapping[str, torch.Tensor]") -> "torch.Tensor":
        logits = given["x"] @ given["head"].mT if head else given["x"]
        return torch_losses(losses, logits, given["target"], given.get("weight"))[:, None]

    return Operation(
        name="cross_entropy",
        operands=(Operand("x", ("rows", "columns")), Operand("target", ("rows",), 8)),
        outputs=(Operand("loss", ("rows",)),),
        families=LOG_SOFTMAX.families,
        relations=(),
        answer=narrow,
        prove=judged.prove,
        decimal=lambda row, _column, fmt, masked: shown(judged.prove(row[None], fmt, masked)),
        bounds=judged.bounds,
        rules=(WITHIN_BOUND, NAN_WHERE_DUE, FINITE_WHERE_DUE),
        yardstick=judged.yardstick,
        by_torch=by_torch,
        parameters={
            "ignore_index": ignore_index,
            "label_smoothing": label_smoothing,
            "weight": weight,
            "head": head,
            "z_loss": z_loss,
            "scale": scale,
            "softcap": softcap,
            "reduction": reduction,
            "invalid_target": invalid_target,
            "gradient_in_place": gradient_in_place,
        },
        with_parameters=_of,
        with_named=_with_named if reduction == "none" else None,
        arguments=losses.targets.arguments(with_weights=bool(weight)),
        most_columns=_WIDEST_HEAD if head else None,
        timed_shape=(4096, _WIDEST_HEAD) if head else None,
        matrix=batch_of if reduction != "none" else None,
        undefined=None
        if is_plain and not head
        else judged.undefined
        if isinstance(judged, Reduced)
        else losses.undefined,
        scale=judged.scale,
        scale_text="of max(|max x| + log-sum + |x_t|, 1)"
        if is_plain
        else "of the sizes of the loss's terms, at least 1",
        on_device=judged.on_device,
        gradient=gradient_of_rows(
            gradient_terms,
            "|g| (p + onehot)" if is_plain else "|g| (a p + e)",
            is_rounded=bool(label_smoothing or gradient_in_place),
            has_second=reduction == "none" and scale == 1 and not (z_loss or softcap or weight or head),
        ),
    )


def _with_named(operation: Operation, named: Named) -> Operation:
    parameters: dict[str, Any] = dict(operation.parameters)
    return _of(**parameters, named=named)


CROSS_ENTROPY = _of()
