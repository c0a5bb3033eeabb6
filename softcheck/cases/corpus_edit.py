"""Adding cases to a corpus: atomically, one writer at a time, never twice the same input, and large ones as recipes."""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from oracles.formats import Bits, Format, decode
from softcheck.cases.case import Case, check_contents
from softcheck.cases.corpus import encode_case, read_lines
from softcheck.cases.recipe import AnyModifier, Constant, Number, Put, Recipe
from softcheck.cases.replacing import replace_file
from softcheck.errors import UsageError

LONGEST_LINE = 2**20
"""Bytes of the longest line that is added: some 100000 float32 patterns. People read, search and review a corpus by
line."""


_READABLE = 256
"""Elements that a reader still takes in as bits."""
_MOST_EXCEPTIONS = 16


class AlreadySavedError(UsageError):
    """A corpus holds this input already, under the id ``saved_as``."""

    def __init__(self, saved_as: str, place: str, digest: str) -> None:
        super().__init__(f"this input is saved already, as {saved_as!r} at {place} (digest {digest})")
        self.saved_as = saved_as
        self.place = place
        """File and line."""


def add(case: Case, path: str | Path, *, beside: Iterable[str | Path] = ()) -> Path:
    """Appends a case to a corpus file, which is created if it does not exist, and returns the file's path.

    ``beside`` names further corpus files that must not hold the same id or input either; the ``*.jsonl`` files of the
    target's own folder are always checked. The file is replaced as a whole, so that a reader, or a crash at any moment,
    sees the old content or the new one. A large input is saved as a recipe if one value with a few exceptions gives it.
    Raises AlreadySavedError if the input is saved already, and UsageError if the case contradicts itself, takes more
    than ``LONGEST_LINE`` bytes, its id is in use, or the folder can't be written.
    """
    check_contents(case)
    line = encode_case(compacted(case))
    if len(line) > LONGEST_LINE:
        raise UsageError(
            f"case {case.id!r} of shape {list(case.shape)} takes {len(line):,} bytes, expected at most {LONGEST_LINE:,}; save "
            "the rows and columns that fail, or describe the input by a recipe (softcheck corpus add --line)"
        )
    target = Path(path).resolve()
    if target.suffix != ".jsonl":
        raise UsageError(f"{path} is not a corpus file; expected a name that ends in .jsonl")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent):
            siblings = [*target.parent.glob("*.jsonl"), *(Path(p).resolve() for p in beside)]
            _refuse_duplicates(case, sorted(set(siblings)))
            old = target.read_bytes() if target.exists() else b""
            if old and not old.endswith(b"\n"):
                old += b"\n"
            replace_file(target, old + line)
    except OSError as error:
        raise UsageError(
            f"can't write {target}: {error.strerror or error}; nothing was changed. Choose a folder you can write to"
        ) from None
    return target


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's advisory lock; the system frees it when the process ends, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _refuse_duplicates(case: Case, files: list[Path]) -> None:
    for file in files:
        for line in read_lines(file):
            if line.case is None:
                raise UsageError(f"{line}: {line.problem}. Nothing was changed; fix this line first")
            if line.case.digest == case.digest:
                raise AlreadySavedError(line.case.id, str(line), case.digest)
            if line.case.id == case.id:
                raise UsageError(f"id {case.id!r} is in use at {line}; choose another name")


def compacted(case: Case, origin: Case | None = None) -> Case:
    """Returns the input as the recipe of ``origin``, or as one value with few exceptions, where its bits are many; else the case itself."""
    rows, columns = case.shape
    if case.rows is None or rows * columns <= _READABLE:
        return case
    bits = case.bits()
    tried = [recipe for recipe in (None if origin is None else origin.recipe, _one_value(bits, case.format)) if recipe]
    for recipe in tried:
        if np.array_equal(recipe.bits(rows, columns, case.format), bits):
            return msgspec.structs.replace(case, rows=None, recipe=recipe)
    return case


def _one_value(bits: Bits, fmt: Format) -> Recipe | None:
    """Returns a recipe of the commonest value with the other values put in; None if too many values differ from it."""
    patterns, counts = np.unique(bits, return_counts=True)
    commonest = patterns[counts.argmax()]
    places = np.argwhere(bits != commonest)
    if len(places) > _MOST_EXCEPTIONS:
        return None
    values = decode(bits, fmt)
    exceptions: list[AnyModifier] = [
        Put(column=int(j), value=_number(float(values[i, j])), row=int(i)) for i, j in places
    ]
    return Recipe(Constant(_number(float(decode(np.array([commonest]), fmt)[0]))), tuple(exceptions))


def _number(value: float) -> Number:
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
