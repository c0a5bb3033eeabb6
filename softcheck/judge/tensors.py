"""Judgement of an output where it lies, by torch's float64: every operation that gives ``on_device`` is measured by the same code.

A row is clear where float64's own error can change neither its verdict nor its figures, and where it keeps every promise. The
figures of clear rows are taken from the device. The numpy judge judges the others, and the rows of the largest figures again.
"""

import msgspec
import torch

from oracles.formats import FLOAT64, FORMATS, Format
from oracles.reference import FullyMasked
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.judge import histogram
from softcheck.judge.compiled import judged
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.measurement import Extreme, Measurement, merge, moved
from softcheck.judge.tensor_rows import KINDS, TensorJudge, TensorRows
from softcheck.operations.arithmetic import Arithmetic, model
from softcheck.operations.drawn import ALIGNED
from softcheck.operations.operation import Operation
from softcheck.operations.ulp import LARGEST

MOST_ELEMENTS = 1 << 21
"""Elements of rows that are not clear, or products of queries and keys, up to which the numpy judge judges all of these rows. Of more it judges the worst and
the first, and the device counts the others."""

_BLOCK = {"cpu": 1 << 15, "cuda": 1 << 24}
"""Elements of the matrix or of the output, whichever are more, judged at once: their float64 temporaries take some ten times 8 bytes each."""


def judge_tensors(
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    *,
    operation: Operation,
    fully_masked: FullyMasked = "nan",
    arithmetic: Arithmetic = STANDARD,
    most_elements: int = MOST_ELEMENTS,
) -> Measurement:
    """Measures ``y`` as an operation's output for ``x``, as ``softcheck.judge.judge.judge`` does with their bits.

    ``x`` is [rows, columns] of the format's dtype, and ``y`` of the output's shape and dtype on the same device, of any strides.
    Verdicts are the numpy judge's. Figures agree with its within a relative 1e-6, but that an element within a relative 2^-40 of a
    power of two may count in the ULP of either side, that a sum of errors may miss what float64 itself is off by, and that
    ``max_standard_share`` is not measured. Order is looked at in the
    rows that the numpy judge judges, which are the rows that are not clear up to ``most_elements`` elements.

    An output of float64, and an operation without ``on_device`` or with named operands, are left to the numpy judge. Raises UsageError if shapes,
    dtypes or devices don't match.
    """
    if not operation.is_judged_on_device or operation.named or fmt == FLOAT64 or x.numel() == 0:
        inputs, outputs = to_bits(x, fmt), to_bits(y, fmt)
        return judge(inputs, outputs, fmt, fully_masked=fully_masked, arithmetic=arithmetic, operation=operation)
    judge_ = TensorJudge(operation, fmt, _check(x, y, fmt, operation), fully_masked, arithmetic)
    return _TensorJudgement(x, y, judge_).measurement(most_elements)


def passing(
    x: torch.Tensor,
    y: torch.Tensor,
    fmt: Format,
    arithmetic: Arithmetic = STANDARD,
    *,
    operation: Operation,
    fully_masked: FullyMasked = "nan",
) -> torch.Tensor:
    """Rows of ``y`` that the numpy judge would surely pass: bool, shape [rows]. No row of float64 does.

    ``arithmetic`` and ``fully_masked`` are those that the judge uses. Raises UsageError if shapes, dtypes or devices don't match.
    """
    if not operation.is_judged_on_device or operation.named or fmt == FLOAT64 or x.numel() == 0:
        return torch.zeros(len(x), dtype=torch.bool, device=x.device)
    rows = TensorJudge(operation, fmt, _check(x, y, fmt, operation), fully_masked, arithmetic)
    step = rows_at_once(x, y)
    parts = [rows.judged(x[at : at + step], y[at : at + step]).clear for at in range(0, len(x), step)]
    return torch.cat(parts).view(len(x), -1).all(dim=1)


def rows_at_once(x: torch.Tensor, y: torch.Tensor) -> int:
    """Returns the rows of a block."""
    step = max(1, _BLOCK[x.device.type] // max(x.shape[1], y.shape[1]))
    return step if step < ALIGNED else step - step % ALIGNED


def _check(x: torch.Tensor, y: torch.Tensor, fmt: Format, operation: Operation) -> Format:
    """Returns the output's format."""
    if x.ndim != 2 or x.dtype != TORCH_DTYPES[fmt.name]:
        raise UsageError(
            f"the input has shape {list(x.shape)} and dtype {x.dtype}, expected [rows, columns] of {TORCH_DTYPES[fmt.name]}"
        )
    shape = operation.output_shape(x.shape[0], x.shape[1])
    dtypes = {x.dtype, *({torch.float32} if operation.answers_rows and fmt.width == 16 else ())}
    if tuple(y.shape) != shape or y.device != x.device or y.dtype not in dtypes:
        raise UsageError(
            f"the output is {y.dtype} {list(y.shape)} on {y.device}, expected {x.dtype} {list(shape)} on {x.device}; report "
            "another shape as wrong_shape instead of judging it"
        )
    return next(each for each in FORMATS.values() if TORCH_DTYPES[each.name] == y.dtype)


class _TensorJudgement:
    """One output being judged."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, judge_: TensorJudge) -> None:
        self.x, self.y, self.judge, self.operation = x, y, judge_, judge_.operation
        self.parts: list[Measurement] = []
        self.counts = torch.zeros(1, dtype=torch.int64, device=x.device)
        self.largest: dict[str, tuple[float, int]] = {}
        """The largest error and share of clear rows, with the row."""
        self.left: list[torch.Tensor] = []
        self.ranks: list[torch.Tensor] = []
        """Rows that are not clear, and their shares."""

    def measurement(self, most_elements: int) -> Measurement:
        """Judges all rows."""
        rows, columns = self.x.shape
        step = rows_at_once(self.x, self.y)
        for first in range(0, rows, step):
            place = torch.arange(first, min(first + step, rows), device=self.x.device)
            found = judged(
                self.judge, self.x[first : first + step].contiguous(), self.y[first : first + step].contiguous()
            )
            self._add(found, found.clear, place)
            left = torch.nonzero(~found.clear.view(len(place), -1)[:, 0]).flatten()
            self.left.append(place[left])
            self.ranks.append(found.shares.view(len(place), -1).amax(dim=1)[left])
        left = self._left(max(1, most_elements // self._work()))
        again = [self._on_host(left)] if len(left) else []
        extremes = sorted({row for _, row in self.largest.values()})
        known = [self._on_host(torch.tensor(extremes))] if extremes else []
        merged = merge([*again, *self.parts])
        used = torch.nonzero(self.counts).flatten()
        counted = dict(zip(used.tolist(), self.counts[used].tolist(), strict=True))
        weaker = self.judge.model != model(STANDARD, self.judge.fmt)
        return msgspec.structs.replace(
            merged,
            rows=rows,
            columns=columns,
            max_ulp=_largest([found.max_ulp for found in (*again, *known)]),
            max_bound_share=_largest([found.max_bound_share for found in (*again, *known)]),
            max_standard_share=None,
            histogram=histogram.merge([merged.histogram, counted]),
            rejudged_rows=sum(found.rows for found in again),
            contract=self.judge.arithmetic if weaker else None,
            violations=merged.violations or tuple(v for found in known for v in found.violations),
            judged_in="float64",
        )

    def _work(self) -> int:
        """Returns the numpy judge's work for a row, in elements: its columns, or the products of queries and keys."""
        columns = self.x.shape[1]
        if self.operation.parts is None or self.operation.answers_logits:
            return columns
        return self.operation.parts(columns)[0] * columns * int(self.operation.parameters.get("head_dim", 1))

    def _add(self, found: TensorRows, rows: torch.Tensor, place: torch.Tensor) -> None:
        """Adds the figures of some rows or parts, bool [rows * parts]; ``place`` holds each row's number in the whole output."""
        columns = found.bins.shape[1]
        counts = torch.bincount(found.bins.view(-1))
        others = torch.nonzero(~rows).flatten()
        if len(others):
            counts -= torch.bincount(found.bins[others].view(-1), minlength=len(counts))
        special = (~found.ordinary).to(torch.int64)
        sums = (found.elements, found.flushed, special, special * found.hidden, found.error_sums)
        maxima = [
            torch.where(rows, values, -1.0) for values in (found.errors, found.shares, found.flushing, found.deviations)
        ]
        figures = [torch.where(rows, values, 0).sum() for values in sums]
        figures += [*(values.amax() for values in maxima), *(values.argmax() for values in maxima[:2])]
        read = torch.stack([number.to(torch.float64) for number in figures]).tolist()
        elements, flushed, specials, hidden = map(int, read[:4])
        ulp_sum, error, share, flushing, off = read[4:9]
        # What has no error counts as one of 0 so far.
        counts[0] -= (len(rows) - len(others)) * columns - elements
        if len(counts) > len(self.counts):
            self.counts, counts = counts, self.counts
        self.counts[: len(counts)] += counts
        for name, value, row in (("error", error, read[9]), ("share", share, read[10])):
            if value >= 0 and (name not in self.largest or value > self.largest[name][0]):
                self.largest[name] = value, int(place[int(row) // (len(rows) // len(place))])
        self.parts.append(
            Measurement(
                elements=elements,
                ulp_sum=min(ulp_sum, LARGEST),
                max_ulp_ftz=flushing if elements else None,
                max_sum_deviation=off if off >= 0 else None,
                special_rows=specials,
                fully_masked_rows=hidden,
                flushed=flushed,
            )
        )

    def _left(self, most: int) -> torch.Tensor:
        """Returns the rows for the numpy judge, at most ``most``, and counts the others as float64 has them."""
        rows, ranks = torch.cat(self.left), torch.cat(self.ranks)
        if len(rows) <= most:
            return rows
        # The worst rows, and the first, since a NaN has no share.
        chosen = torch.arange(len(rows), device=rows.device) < most // 2
        order = torch.argsort(torch.where(chosen, -2.0, ranks.nan_to_num(nan=LARGEST)), descending=True, stable=True)
        chosen[order[: most - most // 2]] = True
        self._count(rows[~chosen])
        return rows[chosen]

    def _count(self, rows: torch.Tensor) -> None:
        """Counts rows that the numpy judge does not see, with all that they break as far as float64 knows."""
        step = rows_at_once(self.x, self.y)
        for first in range(0, len(rows), step):
            chosen = rows[first : first + step]
            found = self.judge.judged(self.x[chosen], self.y[chosen])
            self._add(found, torch.ones_like(found.clear), chosen)
            special = ~found.ordinary & (found.broken.sum(dim=0) > 0)
            counts = dict(zip(KINDS, found.broken.sum(dim=1).tolist(), strict=True))
            words = "in rows that were counted alone"
            violations = tuple(Violation(kind, f"{n} {words}", count=n) for kind, n in counts.items() if n)
            of_sums, mismatches = counts[FindingKind.SUM_VIOLATION], int(special.sum())
            part = Measurement(violations=violations, sum_violations=of_sums, special_mismatches=mismatches)
            self.parts.append(part)

    def _on_host(self, rows: torch.Tensor) -> Measurement:
        """Returns the numpy judge's measurement of some rows, with the rows' own numbers."""
        numbers = rows.tolist()
        at, by = rows.to(self.x.device), self.judge
        found = judge(
            to_bits(self.x[at], by.input_fmt),
            to_bits(self.y[at], by.input_fmt),
            by.input_fmt,
            fully_masked=by.fully_masked,
            arithmetic=by.arithmetic,
            operation=by.operation,
        )
        return moved(found, lambda row: numbers[row])


def _largest(extremes: list[Extreme | None]) -> Extreme | None:
    """The largest extreme, and among equal ones the one of the first row."""
    found = sorted((each for each in extremes if each is not None), key=lambda each: each.row)
    return max(found, key=lambda each: each.value, default=None)
