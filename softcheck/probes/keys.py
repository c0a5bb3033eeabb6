"""Keys of attention in another order with their values, other numbers in keys that a query does not see, and sinks of other heads.

Where no key is hidden by its place, every order of the keys has the same answer and the same bound. A query's answer keeps its bits
whatever stands in keys and values that it does not see: NaN and infinities too, where the declaration promises that. It keeps them
whatever sinks other heads have.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from oracles.formats import Bits, decode, encode
from softcheck.calling.operands import Around, with_operands
from softcheck.contract import FindingKind
from softcheck.operations.heads import heads_first, split
from softcheck.operations.operation import without_layout
from softcheck.operations.ulp import Flags
from softcheck.probes.base import Setting, Subject, TrialTable
from softcheck.probes.helpers import call_on, stopped
from softcheck.probes.outcome import Outcome
from softcheck.probes.relations import ORDERS
from softcheck.probes.same_bits import Repeated, judged_beside, unlike
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


Way = Callable[["_Changed"], Iterator[Outcome | None]]
"""Compares other calls with a call that has an answer."""


def _ways(setting: Setting) -> Iterator[tuple[str, Way]]:
    known = setting.operation.parameters
    if "keys" not in setting.operation.relations or not setting.takes(_columns(setting)):
        return
    for name in () if known["causal"] else _ORDERS[: 2 if setting.quick else None]:
        yield f"order-{name}", partial(_in_order, name=name)
    for name in _CONTENTS if known["causal"] or known["masked"] else ():
        if name != "special" or known["ignores_nan"]:
            yield f"hidden-{name}", partial(_with_others_hidden, name=name)
    if np.isfinite(known["sink"]):
        yield "sinks", _with_sinks_of_others


def _compared(subject: Subject, way: Way) -> Iterator[Outcome | None]:
    if not isinstance(subject.variant.function, Adapted):
        yield Outcome(skipped="the variant is called on the matrix itself, whose keys nobody can exchange")
        return
    before = _Changed(subject, _rows(subject.setting))
    yield from way(before) if before.first.output is not None else [stopped(before.first)]


PROBE = TrialTable(_ways, _compared)


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

        self.plain, self.bits = subject, bits
        changing = Around(subject.variant.function, lambda function, x: with_operands(function, x, other)(x))
        self.subject = subject.calling(changing)
        super().__init__(partial(call_on, self.subject, bits))

    def beside(self, change: Change) -> "_Changed":
        """Returns the same call with operands changed otherwise."""
        return _Changed(self.plain, self.bits, change)


def _in_order(before: _Changed, name: str) -> Iterator[Outcome | None]:
    """Judges a call on keys in another order by the answers of the keys as they were."""
    setting = before.subject.setting
    words, order_of = ORDERS[name]
    order = torch.from_numpy(order_of(decode(before.bits, setting.fmt)[0], setting.seed).copy())
    order = order.to(before.subject.device)
    ordered = before.beside(lambda kind, part: part.index_select(_AXES[kind], order) if kind in _AXES else part)
    yield judged_beside(before.first, ordered.subject, before.bits, f"keys and values {words}", PROPERTY)


def _with_others_hidden(before: _Changed, name: str) -> Iterator[Outcome | None]:
    """Compares the answers of queries that see none of the changed keys: those that no query of a head sees, and each half of the keys."""
    fmt, operation, bits = before.subject.setting.fmt, before.subject.variant.operation, before.bits
    assert operation.logits is not None
    assert before.first.output is not None
    logits = operation.logits(decode(bits, fmt), fmt)[:, : bits.shape[1]]
    unseen: Flags = np.isneginf(logits).reshape(len(bits), -1, bits.shape[1])
    hidden: Flags = np.all(unseen, axis=1, keepdims=True)
    late: Flags = np.broadcast_to(np.arange(bits.shape[1]) >= unseen.shape[2] // 2, hidden.shape)
    for where, keys in {"keys": hidden, "the later half of keys": late, "the earlier half of keys": ~late}.items():
        kept = (unseen | ~keys).all(axis=2)
        if keys.any() and kept.any():
            numbers = np.repeat(kept, before.first.output.shape[1] // kept.shape[1], axis=1)
            message = f"queries' answers change with {_CONTENTS[name]} in {where} that they do not see"
            after = before.beside(partial(_with, keys, name))
            yield unlike(before, after, FindingKind.ROW_DEPENDENCE, message, fmt, kept=numbers)


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


def _with_sinks_of_others(before: _Changed) -> Iterator[Outcome | None]:
    """Compares the answers of heads whose sinks alternate with those of heads that all have one sink or the other."""
    fmt, rows = before.subject.setting.fmt, len(before.bits)
    groups = int(before.subject.variant.operation.parameters["groups"])

    def answers(steps: Callable[[torch.Tensor], torch.Tensor]) -> Repeated:
        return before.beside(lambda kind, part: part + _HIGHER * steps(part) if kind == "sinks" else part)

    mixed = answers(lambda sinks: torch.arange(len(sinks), device=sinks.device) % 2)
    if mixed.first.output is None:
        yield stopped(mixed.first)
        return
    of_query_heads = (np.arange(rows) % split(rows)[1])[:, None] * groups + np.arange(groups)
    is_high = np.repeat(of_query_heads % 2 == 1, mixed.first.output.shape[1] // groups, axis=1)
    message = "answers of heads change with the sinks of other heads"
    for steps, kept in ((torch.zeros_like, ~is_high), (torch.ones_like, is_high)):
        yield unlike(answers(steps), mixed, FindingKind.ROW_DEPENDENCE, message, fmt, kept=kept)
