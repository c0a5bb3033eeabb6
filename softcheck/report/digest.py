"""A digest of what a report says of the variants, which is the same however often and wherever it was measured."""

import hashlib
from typing import Any

import msgspec

from softcheck.report.model import Report

_OF_THE_RUN = {"seconds", "stages", "command", "timings", "speed", "gb_per_s", "speed_vs_torch", "rows_per_second"}
"""Fields that are times, or made of them, and the command as it was typed."""


def digest(report: Report) -> str:
    """Returns 16 hexadecimal digits of SHA-256 over all fields but times and the command."""
    return hashlib.sha256(msgspec.json.encode(_without(msgspec.to_builtins(report)), order="sorted")).hexdigest()[:16]


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(part) for name, part in value.items() if name not in _OF_THE_RUN}
    return [_without(part) for part in value] if isinstance(value, list | tuple) else value
