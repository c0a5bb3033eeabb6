"""Cross-entropy of each row of logits and its target, or of a matrix: log(sum exp x) - x_t, 0 where the target is to be ignored.

Options, each a parameter: ``label_smoothing``, class weights (``weight``), a z-loss, a scale and a soft cap of the logits, the mean or the
sum of a matrix's rows, the gradient in the input's place, and a promised loss for targets that are no columns. With ``head`` the matrix is hidden states, of
which a function makes the logits by an identity.

The bound is derived in docs/bounds.md#losses. Errors are counted in ulp(max(|m| + L + |x_t|, 1)), with m = max x and
L = log(sum exp(x - m)), since most kernels subtract x_t from m + L, which is rounded.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from softcheck.errors import UsageError
from softcheck.operations.gradient import of_rows
from softcheck.operations.losses import Losses
from softcheck.operations.operation import Named, Operand, Operation, Parameter, functions_of
from softcheck.operations.targets import UNTRIED, Targets, batch_of, weights_of

if TYPE_CHECKING:
    import torch

NO_INDEX = float("-inf")
"""The ``ignore_index`` of a cross-entropy that ignores no row."""


_WIDEST_HEAD = 1024
"""Columns of the widest row whose logits an identity makes: the head has as many rows."""


class _CrossEntropy(Losses):
    """The cross-entropy, with what torch makes of it."""

    def in_torch(
        self, x: "torch.Tensor", target: "torch.Tensor | None" = None, weight: "torch.Tensor | None" = None
    ) -> "torch.Tensor":
        """Computes the losses of rows as torch does, [rows]; targets and weights are made of the matrix where none are given."""
        import torch

        target = self.targets.of_tensor(x) if target is None else target
        if weight is None and self.is_weighted:
            weight = weights_of(x)
        ignored = -100 if self.targets.ignored is None else self.targets.ignored
        left_out = self.targets.left_out(target, x.shape[1])
        logits = x if self.logit_scale == 1 else x * self.logit_scale
        logits = self.softcap * torch.tanh(logits / self.softcap) if self.softcap else logits
        found = torch.nn.functional.cross_entropy(
            logits,
            target.masked_fill(left_out, ignored) if self.targets.invalid else target,
            weight,
            reduction="none",
            ignore_index=ignored,
            label_smoothing=self.smoothing,
        )
        if self.z_loss:
            found = found + (self.z_loss * torch.logsumexp(logits, -1) ** 2).masked_fill(left_out, 0.0)
        if self.targets.invalid != "nan":
            return found
        return found.masked_fill(left_out & (target != self.targets.ignored), float("nan"))

    def yardstick(self, x: "torch.Tensor") -> "torch.Tensor":
        """Computes the answers as torch does, [rows, 1]."""
        import torch

        rows = self.rows(x)
        found = self.in_torch(rows)
        if self.reduction == "mean":
            terms = self.terms(x.detach().double().cpu().numpy())
            first, last = (torch.from_numpy(one).to(found)[:, 0] for one in (terms.first, terms.last))
            plain = replace(self, z_loss=0.0).in_torch(rows) if self.z_loss else found
            found = plain / first + (found - plain) / last if self.z_loss else found / first
        return self.summed(found[:, None], len(x))  # type: ignore[no-any-return]

    def by_torch(self, given: "Mapping[str, torch.Tensor]") -> "torch.Tensor":
        """Computes the losses from the operands of a call."""
        logits = given["x"] @ given["head"].mT if self.has_head else given["x"]
        return self.in_torch(logits, given["target"], given.get("weight"))[:, None]


_DEFAULTS: dict[str, Any] = {
    "ignore_index": NO_INDEX,
    "label_smoothing": 0.0,
    "weight": 0.0,
    "head": 0.0,
    "z_loss": 0.0,
    "scale": 1.0,
    "softcap": 0.0,
    "reduction": "none",
    "invalid_target": "",
    "gradient_in_place": 0.0,
}


def _of(named: Named | None = None, **parameters: Parameter) -> Operation:
    """The cross-entropy with these parameters. Raises UsageError for the loss of a single row beside a mean or a sum."""
    given = {**_DEFAULTS, **parameters}
    invalid, index, head = given["invalid_target"], given["ignore_index"], given["head"]
    if invalid not in ("", UNTRIED) and given["reduction"] != "none":
        raise UsageError(
            f"invalid_target={invalid} says the loss of one row, and the reduction is {given['reduction']}; leave one out"
        )
    ignored = None if index == NO_INDEX else int(index)
    losses = _CrossEntropy(
        targets=Targets(ignored, "" if invalid == UNTRIED else invalid, named or {}),
        logit_scale=given["scale"],
        smoothing=given["label_smoothing"],
        z_loss=given["z_loss"],
        softcap=given["softcap"],
        is_weighted=bool(given["weight"]),
        has_head=bool(head),
        reduction=given["reduction"],
    )
    of_row, is_plain = losses.reduction == "none", losses.is_plain
    unit = "max(|max x| + log-sum + |x_t|, 1)" if is_plain else "the sizes of the loss's terms, at least 1"
    own = {"undefined": None} if is_plain and not head else {}
    return Operation(
        name="cross_entropy",
        operands=(Operand("x", ("rows", "columns")), Operand("target", ("rows",), 8)),
        outputs=(Operand("loss", ("rows",)),),
        parameters=given,
        with_parameters=_of,
        with_named=(lambda operation, named: _of(named, **operation.parameters)) if of_row else None,
        sum_sign=1,
        arguments=losses.targets.arguments(with_weights=losses.is_weighted),
        most_columns=_WIDEST_HEAD if head else None,
        timed_shape=(4096, _WIDEST_HEAD) if head else None,
        matrix=None if of_row else batch_of,
        scale_text=f"of {unit}",
        gradient=of_rows(
            losses.gradient_terms,
            "|g| (p + onehot)" if is_plain else "|g| (a p + e)",
            is_rounded=bool(losses.smoothing or given["gradient_in_place"]),
            # What is left is plain but for a smoothing.
            has_second=of_row and not head and replace(losses, smoothing=0.0).is_plain,
        ),
        **{**functions_of(losses), **own},
    )


CROSS_ENTROPY = _of()
