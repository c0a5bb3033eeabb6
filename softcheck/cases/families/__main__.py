"""Writes the edge corpus: ``python -m softcheck.cases.families DIR`` makes DIR/<family>.jsonl for every family."""

import sys
from pathlib import Path

from oracles.formats import FORMATS
from softcheck.cases.corpus import encode_case
from softcheck.cases.families import FAMILIES, cases_of


def family_file(family: str) -> bytes:
    """Content of a family's corpus file: one line per case, all dtypes."""
    return b"".join(encode_case(case) for dtype in FORMATS for case in cases_of(family, dtype))


def main(arguments: list[str]) -> int:
    """Writes the files. Returns 2 if the arguments are not one folder."""
    if len(arguments) != 1:
        sys.stderr.write(f"expected one folder, got {arguments}; usage: python -m softcheck.cases.families DIR\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        (folder / f"{family}.jsonl").write_bytes(family_file(family))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
