"""One mask for several rows, heads or batches, as callers pass it: in a dimension of size 1, or with a stride of 0.

Nobody promises to take a mask of size 1, so that an exception is no finding there, and a wrong answer is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, encode
from softcheck.contract import WRONG_KINDS, Violation
from softcheck.operations.operation import without_layout
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows, prefixed
from softcheck.probes.judged import Judged, judged
from softcheck.probes.operand_moves import HEADS_DIMS, MASKS, packed_all
from softcheck.probes.options import with_options, with_zeros
from softcheck.probes.outcome import Outcome
from softcheck.variants.adapt import Adapted, operands_of

_ROWS, _HEADS, _COLUMNS = 6, 3, 40
"""Two batches of three heads each."""

PROPERTY = "shared_masks"
"""True if one mask may stand for several rows or heads."""

_OF_HEADS, _EXPANDED = "one for all heads", "one expanded to all"
_EXPANDED_HEADS, _EXPANDED_QUERIES = "one for all heads, expanded", "one for all heads and queries, expanded"
_FULL = frozenset({_EXPANDED, _EXPANDED_HEADS, _EXPANDED_QUERIES})
"""Ways in which a mask has all dimensions in full, some of them with a stride of 0."""
_OF_BATCHES = frozenset({_OF_HEADS, _EXPANDED_HEADS, _EXPANDED_QUERIES})

_BATCHES = ("", "in batches")

Share = Callable[[torch.Tensor], torch.Tensor | None]

_SHARED: Mapping[str, Share] = {
    _OF_HEADS: lambda mask: mask[:, :1] if mask.dim() > 2 else None,
    _EXPANDED_HEADS: lambda mask: mask[:, :1] if mask.dim() > 2 else None,
    _EXPANDED_QUERIES: lambda mask: mask[:, :1, :1] if mask.dim() == HEADS_DIMS else None,
    "one for all": lambda mask: mask[(slice(1),) * max(1, mask.dim() - 2)],
    "one without leading dimensions": lambda mask: mask[(0,) * max(1, mask.dim() - 2)],
    _EXPANDED: lambda mask: mask[(slice(1),) * max(1, mask.dim() - 2)],
}
"""Ways to pass a mask that is the same for several rows; the last dimension of softmax's, and the last two of attention's, are its own."""


class _SharedMasks(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        operation = setting.operation
        if operation.arguments is None or operation.matrix is not None or not setting.takes(_COLUMNS):
            return []
        masks = MASKS & {operand.name for operand in operation.arguments.operands}
        return [Trial("masks", masks)] if masks else []

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges each way to pass one mask for several rows.

        Wrong answers in every way say that the function takes no such mask, and are a property. If it takes one in some way, they are
        findings in the other ways.
        """
        # The first call tells how the function is called.
        first = judged(subject, _rows(subject.setting, _ROWS))
        if first.output is None or first.fatal or not isinstance(subject.variant.function, Adapted):
            return Outcome(fatal=first.fatal)
        right: list[str] = []
        wrong: list[Violation] = []
        for one in (subject, *_with_masks(subject)):
            before = first if one is subject else judged(one, _rows(one.setting, _ROWS))
            if before.output is None or before.fatal:
                continue
            known = frozenset(violation.kind for violation in before.violations)
            ways = [*product(_SHARED, _BATCHES if _takes_batches(one) else _BATCHES[:1])]
            for name in sorted(
                each for each in operands_of(one.variant.function) if without_layout(each) in trial.parameters
            ):
                for words, batches in ways:
                    after = _called(one, name, words, batches)
                    if after is not None and one is not subject and after.violations:
                        # Nobody declares whether a row that an option hides has NaN or zeros.
                        after = _called(with_zeros(one), name, words, batches)
                    if after is None:
                        continue
                    shared = words.replace("heads", "rows of a batch") if batches else words
                    circumstances = f"with {name} {shared}, in place of as many"
                    if after.fatal:
                        return Outcome(violations=prefixed(after.violations, circumstances), fatal=True)
                    wrong += prefixed([v for v in after.violations if v.kind in WRONG_KINDS - known], circumstances)
                    right += [words] if after.output is not None and not after.violations else []
        takes = any(words not in _FULL for words in right)
        properties = {PROPERTY: takes and not wrong} if right or wrong else {}
        return Outcome(violations=tuple(wrong) if takes else (), properties=properties)


def _with_masks(subject: Subject) -> Iterator[Subject]:
    """Yields the subject called with each kind of mask that its own call leaves out."""
    function = subject.variant.function
    assert isinstance(function, Adapted)
    for name in ("masked", "biased"):
        found = with_options(subject, {name: 1.0}) if name in function.open_options else None
        yield from () if found is None else (found,)


PROBE = _SharedMasks()


def _takes_batches(subject: Subject) -> bool:
    """True if the answer for rows in batches, [batches, rows, columns], is right."""
    setting = subject.setting
    if setting.operation.parts is not None or not setting.operation.answers_elements:
        return False
    found = judged(subject, _rows(setting, _ROWS), _in_batches(subject.variant.function))
    return found.output is not None and not found.violations


def _in_batches(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """Returns the function as it is called on rows in batches, with its answer as a matrix."""
    return lambda x: function(x.view(-1, _HEADS, x.shape[-1])).reshape(x.shape)


def _rows(setting: Setting, of_one_mask: int) -> Bits:
    """Logits of which every third column is hidden, another one in each ``of_one_mask`` rows, if the operation takes masks."""
    bits = ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed)
    if setting.operation.parameters.get("masked", 1.0):
        rows, columns = np.indices(bits.shape)
        # What a mask hides from single queries depends on the first logit.
        bits[:, 0] = bits[np.arange(_ROWS) // of_one_mask * of_one_mask, 0]
        bits[(columns + rows // of_one_mask) % 3 == 0] = encode(np.array([-np.inf]), setting.fmt)[0]
    if setting.operation.parameters.get("biased"):
        # A bias with numbers is drawn from a row, so that equal ones belong to equal rows.
        bits = bits[np.arange(_ROWS) // of_one_mask * of_one_mask]
    return bits


def _called(subject: Subject, name: str, words: str, batches: str) -> Judged | None:
    """Judges a call with a mask that is shared in a way, on rows in batches or not; None if it can't be."""
    is_shared = True

    def one(_x: torch.Tensor, given: Mapping[str, Any]) -> Mapping[str, Any]:
        nonlocal is_shared
        found = _shared(_SHARED[words], given[name], expands=words in _FULL)
        is_shared &= found is not None
        return given if found is None else {**packed_all(given), name: found}

    bits = _rows(subject.setting, _HEADS if words in _OF_BATCHES else _ROWS)
    function = subject.variant.changing(one).function
    after = judged(subject, bits, _in_batches(function) if batches else function)
    return after if is_shared else None


def _shared(share: Share, mask: torch.Tensor, *, expands: bool) -> torch.Tensor | None:
    """The first of equal masks; None where they are not equal. What follows it in memory hides what it does not hide."""
    found = share(mask)
    if found is None or not torch.equal(found.broadcast_to(mask.shape), mask):
        return None
    others = (
        ~mask if mask.dtype == torch.bool else torch.where(mask == float("-inf"), 0.0, float("-inf")).to(mask.dtype)
    )
    place = share(others)
    assert place is not None
    place.copy_(found)
    return place.expand_as(mask) if expands else place
