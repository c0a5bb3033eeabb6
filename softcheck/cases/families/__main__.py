"""Writes the corpora of families: ``python -m softcheck.cases.families DIR`` makes DIR/edge/<family>.jsonl.

The families of one operation come into DIR/<operation>/<family>.jsonl.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from oracles.formats import FORMATS
from softcheck.cases.corpus import encode_case
from softcheck.cases.families import FAMILIES, OF_OPERATIONS, cases_of


def family_file(family: str) -> bytes:
    """Content of a family's corpus file: one line per case, all dtypes."""
    return b"".join(encode_case(case) for dtype in FORMATS for case in cases_of(family, dtype))


def main(arguments: list[str]) -> int:
    """Writes the files. Returns 2 if the arguments are not one folder."""
    if len(arguments) != 1:
        sys.stderr.write(f"expected one folder, got {arguments}; usage: python -m softcheck.cases.families DIR\n")
        return 2
    corpora: dict[str, Iterable[str]] = {"edge": FAMILIES, **OF_OPERATIONS}
    for corpus, families in corpora.items():
        folder = Path(arguments[0]) / corpus
        folder.mkdir(parents=True, exist_ok=True)
        for family in families:
            (folder / f"{family}.jsonl").write_bytes(family_file(family))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
