"""Attention of other numbers of queries than keys, of long heads, and of other head dimensions than the one that is declared.

A loop over keys may end at the number of queries, a scale may be exact for some head dimensions alone, and many keys may be split
over programs, above all those of a single query. Nobody promises more
than the declared shapes, so that an exception is no finding here, and a wrong answer is. ``square=1`` says that there are always as
many queries as keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np

from oracles.formats import encode
from softcheck.operations.registry import operation
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged import UNPROMISED, Judged, beyond, judged
from softcheck.probes.outcome import Outcome
from softcheck.probes.space.contents import finite_adversarial, spread

_ROWS, _COLUMNS = 6, 70
_QUERIES = (1, 7, 100)
_KEYS_OF_A_CHUNK, _BEFORE_IT = 99, (3, 1, 6, 13, 21)
"""Keys of heads, and of these the keys before the first query: a chunk of a prompt behind a cache, whose length fills no tile."""
_HEAD_DIMS = (32, 128, 96)
_LONG, _LONG_ON_GPU = (1100,), (1100, 2050)
"""Keys of heads with as many queries."""
_LONG_OF_ONE, _LONG_OF_ONE_ON_GPU = (1100, 4100), (1030, 1100, 2050, 4100, 8200, 16_400, 33_000)
"""Keys of heads with a single query."""
_NUMBERS = 2**16
"""Keys of all heads of a call together."""
_SLOW = 3.0
"""Seconds of a call after which no longer heads are tried."""


@dataclass(frozen=True, slots=True)
class _Heads:
    """Parameters that differ from the declared ones, and keys of each head."""

    parameters: Mapping[str, float]
    keys: int = _COLUMNS


class HeadShapes(Probe):
    """Calls attention with other shapes of its operands."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns a trial for each number of queries and each head dimension, unless these are declared, and for long heads."""
        known, declared = setting.operation.parameters, setting.declaration.parameters
        if not setting.has_heads or not setting.takes(_COLUMNS):
            return []
        others = [("queries", n) for n in _QUERIES] if not known["queries"] and not known["square"] else []
        # A scale that is declared belongs to the head dimension.
        others += [("head_dim", n) for n in _HEAD_DIMS] if not {"head_dim", "scale"} & set(declared) else []
        found = [
            Trial(f"{name}/{number}", [_Heads({name: number})])
            for name, number in (others[::2] if setting.quick else others)
        ]
        if known["causal"] and not known["queries"] and not known["square"]:
            chunks = [_Heads({"queries": _KEYS_OF_A_CHUNK - before}, _KEYS_OF_A_CHUNK) for before in _BEFORE_IT]
            found.append(Trial("queries/behind-a-cache", chunks[: 1 if setting.quick else None]))
        long, of_one = (_LONG_ON_GPU, _LONG_OF_ONE_ON_GPU) if setting.on_gpu else (_LONG, _LONG_OF_ONE)
        promised = setting.declaration.promised_columns(setting.dtype) or max(of_one)
        if known["queries"]:
            of_all = {"long/declared-queries": [_Heads({}, keys) for keys in of_one]}
        else:
            # Their products take seconds without a GPU.
            is_quick = setting.on_gpu or setting.time_share >= 1 or known["square"]
            of_all = {"long/as-many-queries": [_Heads({}, keys) for keys in long]} if is_quick else {}
            if not known["square"]:
                of_all["long/one-query"] = [_Heads({"queries": 1}, keys) for keys in of_one]
        longer = {label: [each for each in heads if each.keys <= promised] for label, heads in of_all.items()}
        return [*found, *(Trial(label, heads) for label, heads in longer.items() if heads and not setting.quick)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Judges calls, the shortest heads first, until one shows something or takes long.

        Of short heads every ninth key is hidden where a mask hides.
        """
        varied: tuple[str, ...] = ()
        for heads in trial.parameters:
            begun = subject.setting.now()
            outcome = self._judged(subject, heads)
            varied += outcome.varied
            # Longer ones take longer, and may be compiled for longer.
            if outcome.violations or outcome.fatal or subject.setting.now() - begun > _SLOW:
                return outcome
        return Outcome(varied=varied)

    def _judged(self, subject: Subject, heads: _Heads) -> Outcome:
        found = _called(of_other_heads(subject, heads.parameters), heads.keys)
        words = "".join(f"{name}={number} and " for name, number in heads.parameters.items())
        is_square = "queries" in heads.parameters
        step = "; square=1 declares that there are always as many queries as keys" if is_square else ""
        # What is wrong in the declared shape too is found elsewhere.
        plain = partial(_called, subject, _COLUMNS)
        outcome = beyond(found, plain, f"with {words}{heads.keys} keys{step}", UNPROMISED)
        varied = () if found.output is None else tuple(heads.parameters)
        return Outcome(violations=outcome.violations, fatal=outcome.fatal, varied=varied)


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


def _called(subject: Subject, keys: int) -> Judged:
    setting = subject.setting
    known = setting.operation.parameters
    if keys > _COLUMNS:
        rows = max(1, min(_ROWS, _NUMBERS // (keys * int(known["queries"] or keys))))
        values = finite_adversarial(rows, keys, setting.fmt, setting.seed)
        bits = encode(values, setting.fmt)
        return judged(subject, bits if len(bits) == rows else ordinary_rows(rows, keys, setting.fmt, setting.seed))
    values = spread(_ROWS, keys, setting.fmt, setting.seed)
    if known["masked"]:
        values[:, ::9] = -np.inf
    return judged(subject, encode(values, setting.fmt))
