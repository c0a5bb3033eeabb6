"""Attention of other numbers of queries than keys, and of other head dimensions than the one that is declared.

A loop over keys may end at the number of queries, and a scale may be exact for some head dimensions alone. Nobody promises more
than the declared shapes, so that an exception is no finding here, and a wrong answer is. ``square=1`` says that there are always as
many queries as keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from oracles.formats import decode, encode
from softcheck.contract import WRONG_KINDS, FindingKind
from softcheck.operations.registry import operation
from softcheck.probes.base import Setting, Subject, Trial
from softcheck.probes.helpers import GroupedProbe, ordinary_rows, prefixed
from softcheck.probes.judged import Judged, judged
from softcheck.probes.outcome import Outcome

_ROWS, _COLUMNS = 6, 70
_FACTORS = (1.0, 4.0, 6.0)
"""Factors of the logits of one head after the other: what is rounded in 16 bits shows in some of them."""
_QUERIES = (1, 7, 100)
_HEAD_DIMS = (32, 128, 96)
_ALWAYS = frozenset({FindingKind.OUT_OF_BOUNDS_WRITE, FindingKind.INPUT_MODIFIED})


class HeadShapes(GroupedProbe):
    """Calls attention with other shapes of its operands."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns a trial for each number of queries and each head dimension, unless these are declared."""
        known, declared = setting.operation.parameters, setting.declaration.parameters
        if "head_dim" not in known or not setting.takes(_COLUMNS):
            return []
        others = [("queries", n) for n in _QUERIES] if not known["queries"] and not known["square"] else []
        # A scale that is declared belongs to the head dimension.
        others += [("head_dim", n) for n in _HEAD_DIMS] if not {"head_dim", "scale"} & set(declared) else []
        return [
            Trial(f"{name}/{number}", {name: number}) for name, number in (others[::2] if setting.quick else others)
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges one call, on heads of which every ninth key is hidden where a mask hides."""
        found = _called(of_other_heads(subject, trial.parameters))
        if found.output is None and not found.fatal:
            return Outcome()
        caused = [v for v in found.violations if v.kind in WRONG_KINDS | _ALWAYS or found.fatal]
        if caused and not found.fatal and _called(subject).violations:
            # What is wrong in the declared shape too is found elsewhere.
            return Outcome()
        (words,) = (f"{name}={number}" for name, number in trial.parameters.items())
        step = (
            "; square=1 declares that there are always as many queries as keys" if "queries" in trial.parameters else ""
        )
        return Outcome(violations=prefixed(caused, f"with {words} and {_COLUMNS} keys{step}"), fatal=found.fatal)


PROBE = HeadShapes()


def of_other_heads(subject: Subject, parameters: Mapping[str, float]) -> Subject:
    """Returns the subject as if it declared heads of these parameters."""
    declared = subject.setting.declaration
    changed = {**declared.parameters, **parameters}
    return replace(
        subject,
        setting=replace(subject.setting, declaration=msgspec.structs.replace(declared, parameters=changed)),
        variant=subject.variant.of(operation(declared.operation, changed)),
    )


def _called(subject: Subject) -> Judged:
    setting = subject.setting
    logits = decode(ordinary_rows(_ROWS, _COLUMNS, setting.fmt, setting.seed), setting.fmt)
    bits = encode(logits * np.resize(_FACTORS, (_ROWS, 1)), setting.fmt)
    if setting.operation.parameters["masked"]:
        bits[:, ::9] = encode(np.array([-np.inf]), setting.fmt)[0]
    return judged(subject, bits)
