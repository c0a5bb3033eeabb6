"""Keys of attention in another order with their values, other numbers in keys that a query does not see, and sinks of other heads.

Where no key is hidden by its place, every order of the keys has the same answer and the same bound. A query's answer keeps its bits
whatever stands in keys and values that it does not see: NaN and infinities too, where the declaration promises that. It keeps them
whatever sinks other heads have.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, decode, encode
from softcheck.calling.call import Called, call, place
from softcheck.calling.operands import with_operands
from softcheck.cases.case import PACKED
from softcheck.contract import FindingKind
from softcheck.operations.heads import heads_first, split
from softcheck.operations.operation import without_layout
from softcheck.operations.ulp import Flags
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import Repeated, prefixed, same_bits, stopped, unlike, wrong_values
from softcheck.probes.outcome import Outcome
from softcheck.probes.poison import nan_filled
from softcheck.probes.relations import ORDERS
from softcheck.variants.adapt import Adapted

PROPERTY = "key_order_invariant"

_HIGHER = 2.0
"""Distance between the sinks of heads that follow each other."""

_COLUMNS = 130
_COLUMNS_ON_GPU = 600
_SPREAD = 9.0
"""Distance between the largest and the least logit: the farthest keys count together, and one of them by itself hardly does."""
_ORDERS = ("descending", "reversed", "ascending", "shuffled")
_CONTENTS = {"other": "other numbers", "large": "large numbers", "special": "NaN and infinities"}
_AXES = {"k": 2, "v": 2, "mask": 3, "keep": 3, "bias": 3}
"""The axis of keys in operands whose heads are the second dimension."""

Change = Callable[[str, torch.Tensor], torch.Tensor]
"""Returns another operand from its kind, such as ``k``, and the operand, which has the shape [batch, heads, length, ...] if it holds keys."""


class _Keys(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        known = setting.operation.parameters
        if "keys" not in setting.operation.relations or not setting.takes(_columns(setting)):
            return []
        orders = [] if known["causal"] else _ORDERS[: 2 if setting.quick else None]
        hides = known["causal"] or known["masked"]
        contents = [name for name in _CONTENTS if name != "special" or known["ignores_nan"]] if hides else []
        return [
            *(Trial(f"order-{name}", partial(_in_order, name=name)) for name in orders),
            *(Trial(f"hidden-{name}", partial(_with_others_hidden, name=name)) for name in contents),
            *([Trial("sinks", _with_sinks_of_others)] if np.isfinite(known["sink"]) else []),
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if not isinstance(subject.variant.function, Adapted):
            return Outcome(skipped="the variant is called on the matrix itself, whose keys nobody can exchange")
        bits = _rows(subject.setting)
        before = _Changed(subject, bits)
        if before.first.output is None:
            return stopped(before.first)
        outcome: Outcome = trial.parameters(subject, bits, before)
        return outcome


PROBE = _Keys()


def _columns(setting: Setting) -> int:
    return _COLUMNS_ON_GPU if setting.on_gpu and setting.takes(_COLUMNS_ON_GPU) else _COLUMNS


def _rows(setting: Setting) -> Bits:
    """Logits spread evenly; every fifth is -inf where a call takes a mask."""
    generator = np.random.default_rng([setting.seed, _columns(setting)])
    values = -_SPREAD * generator.random((8 if setting.on_gpu else 2, _columns(setting)))
    if setting.operation.parameters["masked"]:
        values[:, ::5] = -np.inf
    return encode(values, setting.fmt)


class _Changed(Repeated):
    """Calls on rows with other operands."""

    def __init__(self, subject: Subject, bits: Bits, change: Change = lambda _, operand: operand) -> None:
        def other(given: Mapping[str, Any]) -> dict[str, Any]:
            found = dict(given)
            for name, operand in given.items():
                kind = without_layout(name)
                if kind in _AXES:
                    found[name] = operand.clone()
                    view = heads_first(name, found[name], len(bits))
                    view.copy_(change(kind, view))
                elif kind == "sinks":
                    found[name] = change(kind, operand)
            return found

        def make() -> Called:
            placed = place(bits, subject.setting.fmt, PACKED, subject.device)
            with nan_filled():
                function = with_operands(subject.variant.function, placed.view, other)
                return call(function, placed, subject.setting.operation)

        super().__init__(make)


def _in_order(subject: Subject, bits: Bits, before: Repeated, name: str) -> Outcome:
    """Judges a call on keys in another order by the answers of the keys as they were."""
    fmt = subject.setting.fmt
    words, order_of = ORDERS[name]
    order = torch.from_numpy(order_of(decode(bits, fmt)[0], subject.setting.seed).copy()).to(subject.device)
    ordered = _Changed(
        subject, bits, lambda kind, part: part.index_select(_AXES[kind], order) if kind in _AXES else part
    )
    found = ordered.first
    if found.output is None:
        return stopped(found)
    assert before.first.output is not None
    return Outcome(
        violations=prefixed(
            (*found.violations, *wrong_values(subject, bits, found.output, found)), f"keys and values {words}"
        ),
        properties={PROPERTY: bool(same_bits(before.first.output, found.output, fmt).all())},
        fatal=found.fatal,
    )


def _with_others_hidden(subject: Subject, bits: Bits, before: Repeated, name: str) -> Outcome:
    """Compares the answers of queries that see none of the changed keys: those that no query of a head sees, and each half of the keys."""
    fmt, operation = subject.setting.fmt, subject.variant.operation
    assert operation.logits is not None
    assert before.first.output is not None
    logits = operation.logits(decode(bits, fmt), fmt)[:, : bits.shape[1]]
    unseen: Flags = np.isneginf(logits).reshape(len(bits), -1, bits.shape[1])
    hidden: Flags = np.all(unseen, axis=1, keepdims=True)
    late: Flags = np.broadcast_to(np.arange(bits.shape[1]) >= unseen.shape[2] // 2, hidden.shape)
    for where, keys in {"keys": hidden, "the later half of keys": late, "the earlier half of keys": ~late}.items():
        kept = (unseen | ~keys).all(axis=2)
        if not (keys.any() and kept.any()):
            continue
        numbers = np.repeat(kept, before.first.output.shape[1] // kept.shape[1], axis=1)
        message = f"queries' answers change with {_CONTENTS[name]} in {where} that they do not see"
        after = _Changed(subject, bits, partial(_with, keys, name))
        found = unlike(before, after, FindingKind.ROW_DEPENDENCE, message, fmt, kept=numbers)
        if found is not None:
            return found
    return Outcome()


def _with(keys: Flags, name: str, kind: str, part: torch.Tensor) -> torch.Tensor:
    """Replaces chosen keys, [rows, 1, keys], and their values."""
    if kind not in {"k", "v"}:
        return part
    most = torch.finfo(part.dtype).max / 2
    others = {
        "other": 0.5 - part,
        # Keys that stay finite in their dtype.
        "large": (256 * part.float()).clamp(-most, most).to(part.dtype)
        if kind == "k"
        else torch.full_like(part, 1000.0),
        "special": torch.full_like(part, float("inf" if kind == "k" else "nan")),
    }
    chosen = torch.from_numpy(keys.reshape(*part.shape[:3], 1).copy()).to(part.device)
    return torch.where(chosen, others[name], part)


def _with_sinks_of_others(subject: Subject, bits: Bits, _before: Repeated) -> Outcome:
    """Compares the answers of heads whose sinks alternate with those of heads that all have one sink or the other."""
    fmt, rows, groups = subject.setting.fmt, len(bits), int(subject.variant.operation.parameters["groups"])

    def answers(steps: Callable[[torch.Tensor], torch.Tensor]) -> Repeated:
        return _Changed(subject, bits, lambda kind, part: part + _HIGHER * steps(part) if kind == "sinks" else part)

    mixed = answers(lambda sinks: torch.arange(len(sinks), device=sinks.device) % 2)
    if mixed.first.output is None:
        return stopped(mixed.first)
    of_query_heads = (np.arange(rows) % split(rows)[1])[:, None] * groups + np.arange(groups)
    is_high = np.repeat(of_query_heads % 2 == 1, mixed.first.output.shape[1] // groups, axis=1)
    message = "answers of heads change with the sinks of other heads"
    for steps, kept in ((torch.zeros_like, ~is_high), (torch.ones_like, is_high)):
        found = unlike(answers(steps), mixed, FindingKind.ROW_DEPENDENCE, message, fmt, kept=kept)
        if found is not None:
            return found
    return Outcome()
