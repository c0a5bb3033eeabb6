"""The parameters of attention, the values that its calls take, and the families of rows that suit them."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from softcheck.errors import UsageError
from softcheck.operations.heads import Attending, heads_first
from softcheck.operations.masks import trial
from softcheck.operations.operation import Arguments, Operand, Parameter

_FAMILIES = (
    *("heads", "far-sinks", "normal", "ties", "huge", "shifted", "special", "padding", "negative", "finfo-min"),
    *("temperature", "one-column", "cancellation", "layout", "random-bits", "positive", "ramp", "sorted", "uniform"),
    *("widths", "format-specials", "subnormal-logits"),
)
"""Families of few rows: each row is a head with as many queries as keys."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "q query query_states query_layer queries": ("q", "q_blhd", "q3"),
    "k key key_states key_layer keys": ("k", "k_blhd", "k3"),
    "v value value_states value_layer values": ("v", "v_blhd", "v3"),
    "mask attn_mask attention_mask": ("keep", "mask", "bias", "None"),
    "keep valid valid_mask": ("keep", "mask", "bias", "None"),
    "bias attn_bias additive_mask": ("bias", "keep", "mask", "None"),
    "sink sinks s_aux": ("sinks",),
}


def arguments_of(attending: Attending) -> Arguments:
    """The values that calls take: queries, keys, values and masks, in any layout."""
    of_scores = ("rows", "queries", "columns")
    masks = (Operand("keep", of_scores, 1), Operand("mask", of_scores, 1), Operand("bias", of_scores))
    hides = attending.masked or not attending.biased
    return Arguments(
        words=WORDS,
        make=attending.make,
        trial=trial if hides else lambda x, _names: x,
        heads_first=heads_first,
        operands=masks,
    )


def _plain(default: Any) -> Parameter:
    return default if isinstance(default, str) else float(default)


_DEFAULTS: dict[str, Any] = {field.name: _plain(field.default) for field in fields(Attending)}


def attending_of(parameters: Mapping[str, Parameter]) -> tuple[Attending, dict[str, Parameter]]:
    """The heads' options, and all parameters. Raises UsageError for one that says something of another that is not there."""
    head_dim = float(parameters.get("head_dim", _DEFAULTS["head_dim"]))
    found: dict[str, Any] = {**_DEFAULTS, "scale": 1 / math.sqrt(max(1.0, head_dim)), **parameters}
    if found["window"] and not found["causal"]:
        raise UsageError(
            "a window is judged with a causal mask alone; declare causal=top-left or causal=bottom-right beside it"
        )
    if found["key_padding"] and not found["masked"]:
        raise UsageError("key_padding=1 says what a mask hides; declare masked=1 beside it")
    kinds: dict[str, Any] = {field.name: field.type for field in fields(Attending)}
    options = {name: kinds[name](value) for name, value in found.items() if name in kinds}
    # Calls get sinks as float32.
    options["sink"] = float(np.float32(options["sink"]))
    return Attending(**options), found


def families_of(attending: Attending) -> tuple[str, ...]:
    """Families of few rows: each row is a head with as many queries as keys."""
    return _FAMILIES if attending.masked else tuple(name for name in _FAMILIES if name != "padding")
