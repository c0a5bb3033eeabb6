"""Cases of a family of the built-in corpora."""

from softcheck.cases.corpus import builtin_root, load
from softcheck.cases.families import operation_of


def cases_of(family, dtype):
    """The cases of a family in one dtype."""
    file = builtin_root() / (operation_of(family) or "edge") / f"{family}.jsonl"
    return [case for case in load([file]) if case.dtype == dtype]
