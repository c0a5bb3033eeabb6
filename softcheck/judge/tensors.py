"""Judgement of an output where it lies, by torch's float64: every operation that gives ``on_device`` is measured by the same code.

A row is clear where float64's own error can change neither its verdict nor its figures, and where it keeps every promise. The
figures of clear rows are taken from the device. The numpy judge judges the others, and the rows of the largest figures again.
"""

import msgspec
import numpy as np
import torch

from oracles.formats import FLOAT64, FORMATS, Format
from oracles.reference import FullyMasked
from softcheck.calling.call import TORCH_DTYPES, to_bits
from softcheck.contract import FindingKind, Violation
from softcheck.errors import UsageError
from softcheck.judge.histogram import BINS_PER_OCTAVE, LEAST
from softcheck.judge.judge import STANDARD, judge
from softcheck.judge.measurement import Extreme, Measurement
from softcheck.judge.merge import merge, moved
from softcheck.judge.tensor_rows import TensorJudge, TensorRows
from softcheck.operations import bounds
from softcheck.operations.arithmetic import Arithmetic
from softcheck.operations.drawn import ALIGNED
from softcheck.operations.operation import Operation
from softcheck.operations.ulp import LARGEST

MOST_ELEMENTS = 1 << 21
"""Elements of rows that are not clear, or products of queries and keys, up to which the numpy judge judges all of these rows. Of more it judges the worst and
the first, and the device counts the others."""

_BLOCK = {"cpu": 1 << 15, "cuda": 1 << 24}
"""Elements of the matrix or of the output, whichever are more, judged at once: their float64 temporaries take some ten times 8 bytes each."""

_SHIFT = 52 - 6
_FIRST_BIN = int(np.float64(LEAST).view(np.int64)) >> _SHIFT
assert BINS_PER_OCTAVE == 1 << 6


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
    if operation.on_device is None or operation.named or fmt == FLOAT64 or x.numel() == 0:
        inputs, outputs = to_bits(x, fmt), to_bits(y, fmt)
        return judge(inputs, outputs, fmt, fully_masked=fully_masked, arithmetic=arithmetic, operation=operation)
    output_fmt = _check(x, y, fmt, operation)
    return _TensorJudgement(x, y, fmt, output_fmt, operation, fully_masked, arithmetic).measurement(most_elements)


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
    if operation.named or fmt == FLOAT64 or x.numel() == 0:
        return torch.zeros(len(x), dtype=torch.bool, device=x.device)
    output_fmt = _check(x, y, fmt, operation)
    rows = TensorJudge(operation, fmt, output_fmt, fully_masked, arithmetic)
    step = _rows_at_once(x, y)
    parts = [rows.of_any_kind(x[at : at + step], y[at : at + step]).clear for at in range(0, len(x), step)]
    return torch.cat(parts).view(len(x), -1).all(dim=1)


def _rows_at_once(x: torch.Tensor, y: torch.Tensor) -> int:
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

    def __init__(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        fmt: Format,
        output_fmt: Format,
        operation: Operation,
        fully_masked: FullyMasked,
        arithmetic: Arithmetic,
    ) -> None:
        self.x, self.y, self.fmt, self.output_fmt = x, y, fmt, output_fmt
        self.operation, self.fully_masked, self.arithmetic = operation, fully_masked, arithmetic
        self.judge = TensorJudge(operation, fmt, output_fmt, fully_masked, arithmetic)
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
        step = _rows_at_once(self.x, self.y)
        for first in range(0, rows, step):
            self._look_at(first, min(first + step, rows))
        left = self._left(max(1, most_elements // self._work()))
        again = [self._on_host(left)] if len(left) else []
        extremes = sorted({row for _, row in self.largest.values()})
        known = [self._on_host(torch.tensor(extremes))] if extremes else []
        merged = merge([*again, *self.parts])
        used = torch.nonzero(self.counts).flatten()
        counted = dict(merged.histogram)
        for bin_, count in zip(used.tolist(), self.counts[used].tolist(), strict=True):
            counted[bin_] = counted.get(bin_, 0) + count
        weaker = self.judge.model != bounds.model(STANDARD, self.output_fmt)
        return msgspec.structs.replace(
            merged,
            rows=rows,
            columns=columns,
            max_ulp=_largest([found.max_ulp for found in (*again, *known)]),
            max_bound_share=_largest([found.max_bound_share for found in (*again, *known)]),
            max_standard_share=None,
            histogram={bin_: counted[bin_] for bin_ in sorted(counted)},
            rejudged_rows=sum(found.rows for found in again),
            contract=self.arithmetic if weaker else None,
            violations=merged.violations or tuple(v for found in known for v in found.violations),
            judged_in="float64",
        )

    def _look_at(self, first: int, end: int) -> None:
        """Judges a block, first as if all rows were usual, then those that are not clear."""
        x, y = self.x[first:end].contiguous(), self.y[first:end].contiguous()
        place = torch.arange(first, end, device=x.device)
        if self.judge.has_usual_rows:
            found = self.judge.usual(x, y)
            self._add(found, found.clear, place)
            others = _others(found.clear, len(place))
            x, y, place = x[others], y[others], place[others]
        if len(place):
            found = self.judge.of_any_kind(x, y)
            self._add(found, found.clear, place)
            left = _others(found.clear, len(place))
            self.left.append(place[left])
            self.ranks.append(found.shares.view(len(place), -1).amax(dim=1)[left])

    def _work(self) -> int:
        """Returns the numpy judge's work for a row, in elements: its columns, or the products of queries and keys."""
        columns = self.x.shape[1]
        if self.operation.parts is None or self.operation.answers_logits:
            return columns
        return self.operation.parts(columns)[0] * columns * int(self.operation.parameters.get("head_dim", 1))

    def _add(self, found: TensorRows, rows: torch.Tensor, place: torch.Tensor) -> None:
        """Adds the figures of some rows or parts, bool [rows * parts]; ``place`` holds each row's number in the whole output."""
        parts = len(rows) // len(place)
        if found.comparable is None:
            others, compared = torch.nonzero(~rows).flatten(), rows
            errors = found.errors.index_fill_(0, others, 0.0) if len(others) else found.errors
            left_out = len(others) * errors.shape[1]
        else:
            counted = found.comparable & rows[:, None]
            errors, compared = torch.where(counted, found.errors, 0.0), counted.any(dim=1)
            left_out = errors.numel() - int(counted.sum())
        elements = errors.numel() - left_out
        self._count_by_bin(errors, left_out)

        zero = torch.zeros((), device=rows.device)
        # Of rows without an error even the one that stands for the largest has an element to show.
        worst = torch.where(compared, errors.amax(dim=1), -1.0).max(dim=0)
        share = torch.where(rows, found.shares, -1.0).max(dim=0)
        flushing, deviation, flushed = worst.values, zero - 1, zero
        if found.as_if_flushing is not None and found.flushed is not None:
            flushing = torch.where(errors > 0, found.as_if_flushing, 0.0).amax()
            flushed = found.flushed[rows].sum()
        if found.deviations is not None:
            deviation = torch.where(rows & found.has_sum, found.deviations.abs(), -1.0).amax()
        special = rows & ~found.ordinary
        figures = [worst.values, share.values, errors.sum(), flushing, deviation]
        counts = [worst.indices, share.indices, special.sum(), (special & found.hidden).sum(), flushed]
        read = torch.stack([number.to(torch.float64) for number in (*figures, *counts)]).tolist()
        error, most, total, as_if_flushing, off = read[: len(figures)]
        error_row, share_row, specials, hidden, lost = (int(number) for number in read[len(figures) :])
        if elements:
            self._keep("error", error, int(place[error_row // parts]))
        if most >= 0:
            self._keep("share", most, int(place[share_row // parts]))
        self.parts.append(
            Measurement(
                rows=0,
                columns=0,
                elements=elements,
                ulp_sum=min(total, LARGEST),
                max_ulp_ftz=as_if_flushing if elements else None,
                max_sum_deviation=off if off >= 0 else None,
                special_rows=specials,
                fully_masked_rows=hidden,
                flushed=lost,
            )
        )

    def _count_by_bin(self, errors: torch.Tensor, left_out: int) -> None:
        """Counts errors by the bins of ``softcheck.judge.histogram``, less so many zeros that stand for no element."""
        bins = (errors.view(torch.int64) >> _SHIFT).sub_(_FIRST_BIN - 1).clamp_(min=0)
        counts = torch.bincount(bins.view(-1))
        counts[0] -= left_out
        if len(counts) > len(self.counts):
            self.counts, counts = counts, self.counts
        self.counts[: len(counts)] += counts

    def _keep(self, name: str, value: float, row: int) -> None:
        if name not in self.largest or value > self.largest[name][0]:
            self.largest[name] = value, row

    def _left(self, most: int) -> torch.Tensor:
        """Returns the rows for the numpy judge, at most ``most``, and counts the others as float64 has them."""
        if not self.left:
            return torch.zeros(0, dtype=torch.int64)
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
        step = _rows_at_once(self.x, self.y)
        for first in range(0, len(rows), step):
            chosen = rows[first : first + step]
            found = self.judge.of_any_kind(self.x[chosen], self.y[chosen])
            self._add(found, torch.ones_like(found.clear), chosen)
            broken = {kind: int(count.sum()) for kind, count in found.broken.items()}
            special = ~found.ordinary & (torch.stack(list(found.broken.values())).sum(dim=0) > 0)
            part = Measurement(
                rows=0,
                columns=0,
                violations=tuple(
                    Violation(kind, f"{count} in rows that were counted alone", count=count)
                    for kind, count in broken.items()
                    if count
                ),
                sum_violations=broken.get(FindingKind.SUM_VIOLATION, 0),
                special_mismatches=int(special.sum()),
            )
            self.parts.append(part)

    def _on_host(self, rows: torch.Tensor) -> Measurement:
        """Returns the numpy judge's measurement of some rows, with the rows' own numbers."""
        numbers = rows.tolist()
        at = rows.to(self.x.device)
        found = judge(
            to_bits(self.x[at], self.fmt),
            to_bits(self.y[at], self.fmt),
            self.fmt,
            fully_masked=self.fully_masked,
            arithmetic=self.arithmetic,
            operation=self.operation,
        )
        return moved(found, lambda row: numbers[row])


def _others(clear: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns the numbers of rows that are not clear, from the parts of all rows."""
    return torch.nonzero(~clear.view(rows, -1)[:, 0]).flatten()


def _largest(extremes: list[Extreme | None]) -> Extreme | None:
    """The largest extreme, and among equal ones the one of the first row."""
    found = [each for each in extremes if each is not None]
    return min(found, key=lambda each: (-each.value, each.row)) if found else None
