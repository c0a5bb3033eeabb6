"""Two inputs whose exact answers are the same up to an arrangement, and findings of many trials merged by kind."""

from abc import abstractmethod
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from oracles.formats import Bits
from softcheck.contract import FindingKind
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import call_on, prefixed, same_bits
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Conclusion, Outcome, Shown


def compared(
    subject: Subject,
    plain: Bits,
    changed: Bits,
    *,
    words: str,
    name: str,
    columns: NDArray[np.int64] | None = None,
    of_changed: NDArray[np.int64] | None = None,
) -> Outcome:
    """Judges the changed input's output, and records whether both outputs hold the same bits.

    ``columns`` of the plain output and ``of_changed`` of the changed one have equal answers; None is for all columns in
    order. The property ``name`` is True if their bits are equal. The plain input's values are not judged: cases do that.
    """
    before, after = call_on(subject, plain), judged(subject, changed)
    bits = after.bits(subject.setting.fmt)
    violations = prefixed(after.violations, words)
    fatal = before.fatal or after.fatal
    if before.output is None or bits is None:
        return Outcome(violations=violations or before.violations, fatal=fatal)
    first = before.output if columns is None else before.output[:, columns]
    second = bits if of_changed is None else bits[:, of_changed]
    same = bool(same_bits(first, second, subject.setting.fmt).all())
    return Outcome(violations=violations, properties={name: same}, fatal=fatal)


class RelationProbe(Probe):
    """A probe whose trials all look for the same."""

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Returns one finding per kind: the first trial that shows it, the largest share, the number of such trials."""
        made = sum(outcome.skipped is None for _, outcome in done)
        findings = []
        for kind in FindingKind:
            shown = [(trial.label, v) for trial, outcome in done for v in outcome.violations if v.kind is kind]
            if not shown:
                continue
            label, first = shown[0]
            share = max((v.share for _, v in shown if v.share is not None), default=None)
            trials = len({label for label, _ in shown})
            also = f" (and in {trials - 1} of {made - 1} other trials)" if trials > 1 else ""
            findings.append(Shown(label, msgspec.structs.replace(first, message=first.message + also, share=share)))
        return self.concluded(done, findings)


class ChangeProbe(RelationProbe):
    """A probe that changes an input in ways that move an answer's elements and keep their values.

    It makes no trials on an operation whose ``relations`` don't name it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns ``changes`` if the operation keeps the relation."""
        return self.changes(setting) if self._name in setting.operation.relations else []

    @abstractmethod
    def changes(self, setting: Setting) -> Sequence[Trial]:
        """Returns one trial for each change of an input."""
