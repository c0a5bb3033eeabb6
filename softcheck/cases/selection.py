"""Choosing among cases by dtype, family, id and tag."""

import difflib
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase

from oracles.formats import FORMATS
from softcheck.cases.case import Case
from softcheck.errors import UsageError, near_matches


def select(
    cases: Iterable[Case],
    *,
    dtypes: Collection[str] = (),
    families: Collection[str] = (),
    globs: Collection[str] = (),
    tags: Collection[str] = (),
) -> list[Case]:
    """Returns the cases that match one word of every kind given. A kind left empty excludes no case.

    ``globs`` are shell patterns over ids, such as ``padding/*/float16``. Raises UsageError, with near matches, for a
    word that by itself matches no case. Raises UsageError if no case matches all kinds together: an empty choice would
    judge nothing and look like success.
    """
    pool = list(cases)
    _refuse_unknown("dtype", dtypes, {case.dtype for case in pool} | set(FORMATS))
    _refuse_unknown("family", families, {case.family for case in pool})
    _refuse_unknown("tag", tags, {tag for case in pool for tag in case.tags})
    for glob in globs:
        if not any(fnmatchcase(case.id, glob) for case in pool):
            raise UsageError(f"no case id matches {glob!r}; {_near_ids(glob, pool)}")
    tests: list[Callable[[Case], bool]] = [
        lambda case: not dtypes or case.dtype in dtypes,
        lambda case: not families or case.family in families,
        lambda case: not tags or not set(tags).isdisjoint(case.tags),
        lambda case: not globs or any(fnmatchcase(case.id, glob) for glob in globs),
    ]
    chosen = [case for case in pool if all(test(case) for test in tests)]
    if not chosen:
        asked = {"dtypes": dtypes, "families": families, "globs": globs, "tags": tags}
        said = "; ".join(f"{kind} {', '.join(words)}" for kind, words in asked.items() if words) or "no restriction"
        raise UsageError(f"none of {len(pool)} cases matches all of: {said}. Drop one of them")
    return chosen


def _refuse_unknown(kind: str, words: Collection[str], known: set[str]) -> None:
    for word in words:
        if word not in known:
            raise UsageError(f"unknown {kind} {word!r}; {near_matches(word, sorted(known))}")


def _near_ids(glob: str, pool: list[Case]) -> str:
    """Close ids, or the families where none is close: hundreds of ids would help nobody."""
    close = difflib.get_close_matches(glob, [case.id for case in pool], n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "ids are family/name/dtype with the families " + ", ".join(sorted({case.family for case in pool}))
