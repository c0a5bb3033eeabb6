"""Names of dtypes as people write them: softcheck's own, and short ones such as fp16 and bf16."""

from oracles.formats import FORMATS
from softcheck.errors import UsageError, near_matches

ALIASES = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "single": "float32",
    "fp64": "float64",
    "double": "float64",
}
"""Short names, each with softcheck's own."""


def known_dtype(name: object) -> str:
    """The name of a format for a dtype's own or short name, or torch's dtype.

    Raises UsageError, with near matches, for any other.
    """
    written = str(name).removeprefix("torch.")
    found = ALIASES.get(written.lower(), written)
    if found not in FORMATS:
        raise UsageError(f"unknown dtype {written!r}; {near_matches(written, list(FORMATS))}")
    return found
