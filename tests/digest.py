"""A digest of what a report says of the variants, which is the same however often and wherever it was measured."""

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

from softcheck.report.model import Report

_OF_THE_RUN = {
    "seconds",
    "stages",
    "command",
    "timings",
    "speed",
    "gb_per_s",
    "tflop_per_s",
    "speed_vs_torch",
    "rows_per_second",
}
"""Fields that are times, or made of them, and the command as it was typed."""

BY_THE_CLOCK = {"sampled", "regimes", "seen_regimes", "judged_shapes", "coverage", "probes_run", "notes"}
"""Fields that tell how much was tried by probes that go on until a time is over, and notes, some of which name seconds."""


def digest(report: Report, without: Collection[str] = ()) -> str:
    """Returns 16 hexadecimal digits of SHA-256 over all fields but times, the command, and the fields ``without``."""
    left_out = {*_OF_THE_RUN, *without}
    encoded = msgspec.json.encode(_rest(msgspec.to_builtins(report), left_out), order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:16]


def _rest(value: Any, left_out: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {name: _rest(part, left_out) for name, part in value.items() if name not in left_out}
    return [_rest(part, left_out) for part in value] if isinstance(value, list | tuple) else value
