"""Gradients of variants whose outputs carry one: against the exact backward, for output gradients of all layouts.

Several forward calls come first, and their backward calls then follow in reverse order, as in a model: what a backward
needs must be its own, and it changes no tensor of the caller's. A backward may be called twice, may be differentiated
again, and may come after the input was overwritten, if it does not refuse that. That an output carries a gradient is asked only
of a variant that declares ``backward=True``; that the backward of one that carries it can be called, of each that does not declare
False, which is not tried.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from oracles.formats import Bits
from softcheck.calling.call import call_on_device, place, to_bits
from softcheck.cases.case import PACKED, Layout
from softcheck.cases.matrix_layouts import strided_layouts
from softcheck.contract import FindingKind, Violation
from softcheck.probes import operand_gradients
from softcheck.probes.answers_together import of_answers_together
from softcheck.probes.backward import Forward, GradientRequest, backward, forward, is_torchs_own
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.bias_gradients import of_bias
from softcheck.probes.forward_mode import of_forward_mode
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged_gradients import changed, judged, judged_together, rewritten
from softcheck.probes.one_tensor import of_one_tensor
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.second_derivative import of_second_derivative
from softcheck.variants.source import source_of


def _balanced(grad: torch.Tensor) -> torch.Tensor:
    """Returns gradients that cancel exactly in each row, as those of a loss of pairs do; of one answer for each row the same."""
    columns = grad.shape[1]
    if columns < 2:
        return grad
    pair = torch.zeros(columns, dtype=grad.dtype, device=grad.device)
    pair[columns // 3], pair[columns - 1] = 1.0, -1.0
    return grad[:, :1] * pair


def _of_a_mask(grad: torch.Tensor) -> torch.Tensor:
    """Returns ones and zeros, a one first, as the sum of what a mask leaves has them."""
    place = torch.arange(grad.numel(), device=grad.device).view(grad.shape)
    return (place % 3 == 0).to(grad.dtype)


def _of_some_rows(grad: torch.Tensor) -> torch.Tensor:
    """Returns gradients with no number but 0 in the first row, two in the second and one in each other: as many as rows."""
    found, row = torch.zeros_like(grad), torch.arange(len(grad), device=grad.device)
    column = (7 * row) % grad.shape[1]
    found[row, column] = grad[row, column]
    found[1:2, -1:] = 1.0
    found[:1] = 0.0
    return found


def _special(grad: torch.Tensor) -> torch.Tensor:
    """Returns gradients with a NaN in the second row, as an overflow before makes them; the same where there is one for each row."""
    if grad.shape[1] < 2:
        return grad
    found = grad.clone()
    found[1:2, 0] = torch.nan
    return found


_GRADS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "varying": lambda grad: grad,
    "transposed": lambda grad: grad.t().contiguous().t(),
    "every second column of a wider matrix": lambda grad: torch.stack([grad, grad * float("nan")], dim=2)[..., 0],
    "one row expanded to all": lambda grad: grad[:1].expand(grad.shape),
    "one number expanded to all": lambda grad: grad[:1, :1].expand(grad.shape),
    "one number for each row": lambda grad: grad[:, :1].expand(grad.shape),
    "one column less another": _balanced,
    "ones and zeros": _of_a_mask,
    "of some rows alone": _of_some_rows,
    "varying, with a NaN": _special,
}
"""Output gradients in their layouts, made from varying ones."""
_FEW_GRADS = {words: _GRADS[words] for words in ("varying", "one number expanded to all")}


_TALL = (4099, 1027, 259)
"""Rows of a tall matrix: the most that are done in time."""
_WIDTHS, _WIDEST = (3, 129, 600, 1100, 2050, 4100, 8200), 16_385
"""Columns of outputs that are asked whether they carry a gradient, and the most that a number of the source leads to."""
_TOGETHER = "answers-together"
_FEW = 16
_SECONDS = 1.0
"""Time for the forward of a tall matrix, foretold by that of few rows."""


class _Gradients(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        if setting.declaration.backward is False:
            return []
        if setting.operation.operand_gradients is not None:
            asked = operand_gradients.trials(setting.operation, on_gpu=setting.on_gpu)
            operands = [Trial(label, each) for label, each in asked.items() if setting.takes(each.keys)]
            return [*operands, *map(Trial, _OF_OPERANDS)]
        if setting.operation.gradient is None:
            return []
        shapes = [(3, 129), (2, 1100)] if not setting.on_gpu else [(3, 129), (33, 64), (2, 2050)]
        found = {f"packed-{rows}x{columns}": GradientRequest(rows=rows, columns=columns) for rows, columns in shapes}
        if "strided" in setting.declaration.layouts:
            found |= {
                f"{name}-{rows}x{columns}": GradientRequest(
                    rows=rows, columns=columns, layout=strided_layouts(rows, columns)[name]
                )
                for name, rows, columns in (("transposed", 3, 129), ("row-step", 3, 129), ("transposed", 17, 17))
            }
            found["saved-packed-3x71"] = GradientRequest(
                rows=3, columns=71, layout=strided_layouts(3, 71)["transposed"], packed=True
            )
        found |= {
            "hidden-3x65": GradientRequest(rows=3, columns=65, is_leaf=False),
            "masked-row-3x68": GradientRequest(rows=3, columns=68, masked=True),
            "another-thread-2x1100": GradientRequest(rows=2, columns=1100, threaded=True),
            "twice-3x66": GradientRequest(rows=3, columns=66, twice=True),
            "overwritten-3x67": GradientRequest(rows=3, columns=67, overwritten=True),
            "answer-overwritten-3x69": GradientRequest(rows=3, columns=69, answer_overwritten=True),
        }
        chosen = [Trial(label, asked) for label, asked in found.items() if setting.takes(asked.columns)]
        others = [Trial("tall", 33 if setting.takes(33) else 1), *map(Trial, _NAMED)]
        return [*chosen, *others]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if named := (_NAMED | _OF_OPERANDS).get(trial.label):
            return named(subject)
        if trial.label.startswith("operands"):
            return operand_gradients.of_operands(subject, trial.parameters)
        if trial.label == "tall":
            return _tall(subject, trial.parameters)
        if not trial.parameters.is_leaf:
            return _hidden(subject, trial.parameters)
        return _in_turn(subject, trial.parameters, _FEW_GRADS if trial.parameters.threaded else _GRADS)


PROBE = _Gradients()


def _in_turn(
    subject: Subject, asked: GradientRequest, grads: dict[str, Callable[[torch.Tensor], torch.Tensor]]
) -> Outcome:
    """Makes a forward for each output gradient, and then the backward calls in reverse order."""
    made: list[tuple[Forward, torch.Tensor]] = []
    for number, (words, form) in enumerate(grads.items()):
        found = forward(subject, asked, number, words)
        if not isinstance(found, Forward):
            return found
        made.append((found, form(found.grad)))
    with torch.no_grad():
        for one, _ in made:
            if asked.overwritten:
                one.x.zero_()
            if asked.answer_overwritten:
                one.output.zero_()
    words = f"after the forwards of {len(grads)} inputs"
    words += ", by another thread" * asked.threaded
    words += ", which were overwritten since" * asked.overwritten
    words += ", whose answers were overwritten since" * asked.answer_overwritten
    kept: list[tuple[str, Bits, torch.Tensor]] = []
    for one, grad in reversed(made):
        outcome = _of_one(subject, one, grad, asked, words, kept)
        if outcome.violations or outcome.skipped or outcome.fatal:
            return outcome
    found_changed = [rewritten(subject, *each) for each in kept]
    if not asked.answer_overwritten:
        found_changed += [changed(subject, one) for one, _ in made]
    return Outcome(violations=tuple(each for each in found_changed if each is not None)[:1])


def _of_one(
    subject: Subject,
    one: Forward,
    grad: torch.Tensor,
    asked: GradientRequest,
    words: str,
    kept: list[tuple[str, Bits, torch.Tensor]],
) -> Outcome:
    """Judges one gradient, and keeps it with its bits."""
    before = grad.clone()
    for turn in range(1 + asked.twice):
        gradient = backward(subject, one, grad, keeps=asked.twice, threaded=asked.threaded)
        if isinstance(gradient, Outcome):
            # A graph that watches for changes of its tensors refuses those that were overwritten.
            may_refuse = asked.overwritten or asked.answer_overwritten or asked.packed or turn
            return Outcome(fatal=gradient.fatal) if may_refuse else gradient
        kept.append((one.words, to_bits(gradient, subject.setting.fmt), gradient))
        wrong = judged(subject, one, gradient, before, words + (", called once more" if turn else ""))
        if wrong is not None:
            return Outcome(violations=(wrong,))
    if not torch.equal(grad.nan_to_num(), before.nan_to_num()):
        message = f"the output gradient {one.words}, which is the caller's, changed in the backward"
        return Outcome(violations=(Violation(FindingKind.INPUT_MODIFIED, message),))
    return Outcome()


def _hidden(subject: Subject, asked: GradientRequest) -> Outcome:
    """Asks for the gradient of an input that another operation made, where a leaf of the graph has one."""
    leaf = forward(subject, replace(asked, is_leaf=True), 0, "varying")
    if not isinstance(leaf, Forward):
        return Outcome(fatal=leaf.fatal)
    first = forward(subject, asked, 0, "varying")
    if isinstance(first, Forward) or first.violations or first.skipped or first.fatal:
        return _in_turn(subject, asked, _GRADS) if isinstance(first, Forward) else first
    message = (
        "the output carries a gradient if the input is a leaf of the graph, and none, or wrong values, if another "
        "operation made the input; expected one wherever the input requires it"
    )
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))


def _expanded(subject: Subject) -> Outcome:
    """Asks for the gradient of rows that are one row expanded, for output gradients that differ."""
    setting = subject.setting
    asked = GradientRequest(rows=3, columns=70, layout=Layout(row_stride=0))
    if "strided" not in setting.declaration.layouts or not setting.takes(asked.columns):
        return Outcome()
    one = forward(subject, asked, 0, "varying")
    if not isinstance(one, Forward):
        return one
    gradient = backward(subject, one, one.grad, keeps=False)
    if isinstance(gradient, Outcome):
        return gradient
    wrong = judged_together(subject, one, gradient)
    return Outcome(violations=() if wrong is None else (wrong,))


def _carried(subject: Subject) -> Outcome:
    """Looks whether outputs of all widths carry a gradient, if those of some have a backward of the variant's own; calls none.

    A path that leaves a width to torch carries one that nobody promises elsewhere.
    """
    setting = subject.setting
    own = [n + 1 for n in source_of(subject.variant.function).sizes_for(setting.fmt.itemsize)]
    carried: dict[int, bool] = {}
    own_backward: int | None = None
    for columns in sorted({*_WIDTHS, *(n for n in own if n <= _WIDEST)}):
        if not setting.takes(columns):
            continue
        bits = ordinary_rows(1, columns, setting.fmt, setting.seed)
        placed = place(bits, setting.fmt, PACKED, subject.device)
        placed.view.requires_grad_()
        with nan_filled():
            returned = call_on_device(subject.variant.function, placed, setting.operation)
        if returned.output is not None:
            carried[columns] = returned.output.requires_grad
            if carried[columns] and not is_torchs_own(returned.output):
                own_backward = own_backward or columns
        if returned.fatal:
            return Outcome(fatal=True)
    without = [columns for columns, is_carried in carried.items() if not is_carried]
    if own_backward is None:
        return Outcome()
    if not without:
        return _carried_by_parameters(subject, own_backward)
    message = (
        f"the output of 1 row of {without[0]} columns carries no gradient, and that of {own_backward} columns has a "
        f"backward of its own (of {len(carried)} widths {len(without)} carry none); expected one wherever the input requires it"
    )
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))


def _carried_by_parameters(subject: Subject, columns: int) -> Outcome:
    """Looks whether the output for a module's parameter carries a gradient, where that for a tensor does."""
    setting, function = subject.setting, subject.variant.function
    placed = place(ordinary_rows(1, columns, setting.fmt, setting.seed), setting.fmt, PACKED, subject.device)
    with nan_filled():
        returned = call_on_device(lambda x: function(torch.nn.Parameter(x.detach())), placed, setting.operation)
    if returned.output is None or returned.output.requires_grad or returned.fatal:
        return Outcome(fatal=returned.fatal)
    message = (
        f"the output of 1 row of {columns} columns carries no gradient for a torch.nn.Parameter, and one for a tensor that requires it; "
        "expected one for both"
    )
    return Outcome(violations=(Violation(FindingKind.WRONG_GRADIENT, message),))


def _tall(subject: Subject, columns: int) -> Outcome:
    """Asks for the gradient of as many rows as are done in time."""
    fmt = subject.setting.fmt
    placed = place(ordinary_rows(_FEW, columns, fmt, subject.setting.seed), fmt, PACKED, subject.device)
    seconds = []
    # The first call may compile a kernel.
    for _ in range(2):
        begun = subject.setting.now()
        with nan_filled():
            fatal = call_on_device(subject.variant.function, placed, subject.setting.operation).fatal
        seconds.append(subject.setting.now() - begun)
        if fatal:
            return Outcome(fatal=True)
    allowed = _SECONDS * subject.setting.time_share
    for rows in _TALL:
        if rows * min(seconds) / _FEW < allowed:
            return _in_turn(subject, GradientRequest(rows=rows, columns=columns), {"varying": _GRADS["varying"]})
    return Outcome(skipped=f"gradients of {_TALL[-1]} rows were left out: they take over {allowed:g} s", is_cut=True)


_NAMED: dict[str, Callable[[Subject], Outcome]] = {
    _TOGETHER: of_answers_together,
    "bias": of_bias,
    "second-derivative": of_second_derivative,
    "forward-mode": of_forward_mode,
    "expanded": _expanded,
    "carried": _carried,
}
"""Trials that need no request."""
_OF_OPERANDS: dict[str, Callable[[Subject], Outcome]] = {
    _TOGETHER: of_answers_together,
    "one-tensor": of_one_tensor,
}
"""The same for attention."""
