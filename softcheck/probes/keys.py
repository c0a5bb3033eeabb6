"""Keys of attention in another order with their values, other numbers in keys that a query does not see, and sinks of other heads.

Where no key is hidden by its place, every order of the keys has the same answer and the same bound. A query's answer keeps its bits
whatever stands in keys and values that it does not see: NaN and infinities too, where the declaration promises that. It keeps them
whatever sinks other heads have.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, decode, encode
from softcheck.contract import FindingKind
from softcheck.operations.heads import heads_first, split
from softcheck.operations.operation import without_layout
from softcheck.operations.ulp import Flags
from softcheck.probes.base import Probe, Setting, Subject, Trial
from softcheck.probes.helpers import Repeated, call_on, prefixed, same_bits, stopped, unlike
from softcheck.probes.judged import judged
from softcheck.probes.outcome import Outcome
from softcheck.variants.adapt import Adapted

PROPERTY = "key_order_invariant"

_SINKS = "sinks"
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
"""Returns an operand with other keys from its kind, one of ``_AXES``, and the operand as [batch, heads, length, ...]."""


class _Keys(Probe):
    def trials(self, setting: Setting) -> Sequence[Trial]:
        known = setting.operation.parameters
        if "keys" not in setting.operation.relations or not setting.takes(_columns(setting)):
            return []
        orders = [] if known["causal"] else _ORDERS[: 2 if setting.quick else None]
        hides = known["causal"] or known["masked"]
        contents = [name for name in _CONTENTS if name != "special" or known["ignores_nan"]] if hides else []
        sinks = [Trial(_SINKS)] if np.isfinite(known["sink"]) else []
        return [
            *(Trial(f"order-{name}", name) for name in orders),
            *(Trial(f"hidden-{name}", name) for name in contents),
            *sinks,
        ]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        if not isinstance(subject.variant.function, Adapted):
            return Outcome(skipped="the variant is called on the matrix itself, whose keys nobody can exchange")
        bits = _rows(subject.setting)
        before = Repeated(partial(call_on, subject, bits))
        if before.first.output is None:
            return stopped(before.first)
        if trial.label == _SINKS:
            return _with_sinks_of_others(subject, bits)
        if trial.label.startswith("order"):
            return _in_order(subject, bits, before.first.output, trial.parameters)
        return _with_others_hidden(subject, bits, before, trial.parameters)


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


def _on(subject: Subject, change: Change) -> Adapted:
    """Returns the variant for operands with other keys."""

    def other(name: str, operand: Any, rows: int) -> Any:
        kind = without_layout(name)
        if kind not in _AXES:
            return operand
        found = operand.clone()
        view = heads_first(name, found, rows)
        view.copy_(change(kind, view))
        return found

    return _given(subject, other)


def _given(subject: Subject, other: Callable[[str, Any, int], Any]) -> Adapted:
    """Returns the variant for other operands, made from an operand's name, the operand, and the number of rows."""
    function = subject.variant.function
    assert isinstance(function, Adapted)
    return function.changing(lambda x, given: {name: other(name, each, len(x)) for name, each in given.items()})


def _in_order(subject: Subject, bits: Bits, before: Bits, name: str) -> Outcome:
    """Judges a call on keys in another order by the answers of the keys as they were."""
    fmt = subject.setting.fmt
    logits = decode(bits, fmt)[0]
    orders = {
        "reversed": np.arange(len(logits))[::-1],
        "ascending": np.argsort(logits, kind="stable"),
        "descending": np.argsort(-logits, kind="stable"),
        "shuffled": np.random.default_rng(subject.setting.seed).permutation(len(logits)),
    }
    order = torch.from_numpy(orders[name].copy()).to(subject.device)
    found = judged(subject, bits, _on(subject, lambda kind, part: part.index_select(_AXES[kind], order)))
    words = f"keys and values {name}" + (" by the first row's logits" if name.endswith("cending") else "")
    output = found.bits(fmt)
    properties = {} if output is None else {PROPERTY: bool(same_bits(before, output, fmt).all())}
    return Outcome(violations=prefixed(found.violations, words), properties=properties, fatal=found.fatal)


def _with_others_hidden(subject: Subject, bits: Bits, before: Repeated, name: str) -> Outcome:
    """Compares the answers of queries that see none of the changed keys."""
    fmt, operation = subject.setting.fmt, subject.variant.operation
    assert operation.logits is not None
    assert before.first.output is not None
    logits = operation.logits(decode(bits, fmt), fmt)[:, : bits.shape[1]]
    unseen = np.isneginf(logits).reshape(len(bits), -1, bits.shape[1])
    for where, keys in _changed(unseen):
        changed = replace(subject, variant=replace(subject.variant, function=_on(subject, _with(keys, name))))
        kept = (unseen | ~keys).all(axis=2)
        numbers = np.repeat(kept, before.first.output.shape[1] // kept.shape[1], axis=1)
        message = f"queries' answers change with {_CONTENTS[name]} in {where} that they do not see"
        after = Repeated(partial(call_on, changed, bits))
        found = unlike(before, after, FindingKind.ROW_DEPENDENCE, message, fmt, kept=numbers)
        if found is not None:
            return found
    return Outcome()


def _with_sinks_of_others(subject: Subject, bits: Bits) -> Outcome:
    """Compares the answers of heads whose sinks alternate with those of heads that all have one sink or the other."""
    fmt, rows, groups = subject.setting.fmt, len(bits), int(subject.variant.operation.parameters["groups"])

    def answers(steps: Callable[[torch.Tensor], torch.Tensor]) -> Repeated:
        def other(name: str, operand: Any, _rows: int) -> Any:
            return operand + _HIGHER * steps(operand) if name == "sinks" else operand

        changed = replace(subject, variant=replace(subject.variant, function=_given(subject, other)))
        return Repeated(partial(call_on, changed, bits))

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


def _changed(unseen: Flags) -> list[tuple[str, Flags]]:
    """Returns the keys that no query of a head sees, and each half of the keys if some query sees none of it."""
    hidden: Flags = np.all(unseen, axis=1, keepdims=True)
    late: Flags = np.zeros(hidden.shape, dtype=np.bool_)
    late[..., unseen.shape[2] // 2 :] = True
    found: list[tuple[str, Flags]] = [
        ("keys", hidden),
        ("the later half of keys", late),
        ("the earlier half of keys", ~late),
    ]
    return [(where, keys) for where, keys in found if keys.any() and (unseen | ~keys).all(axis=2).any()]


def _larger(part: torch.Tensor) -> torch.Tensor:
    """Returns 256 times an operand's numbers, which stay finite in its dtype."""
    most = torch.finfo(part.dtype).max / 2
    return (256 * part.float()).clamp(-most, most).to(part.dtype)


def _with(keys: Flags, name: str) -> Change:
    """Replaces chosen keys, [rows, 1, keys], and their values."""
    contents: dict[str, Callable[[str, torch.Tensor], torch.Tensor]] = {
        "other": lambda _, part: 0.5 - part,
        "large": lambda kind, part: _larger(part) if kind == "k" else torch.full_like(part, 1000.0),
        "special": lambda kind, part: torch.full_like(part, float("inf" if kind == "k" else "nan")),
    }

    def change(kind: str, part: torch.Tensor) -> torch.Tensor:
        if kind not in {"k", "v"}:
            return part
        chosen = torch.from_numpy(keys.reshape(*part.shape[:3], 1)).to(part.device)
        return torch.where(chosen, contents[name](kind, part), part)

    return change
