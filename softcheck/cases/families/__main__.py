"""Writes the edge corpus: ``python -m softcheck.cases.families DIR`` makes DIR/<family>.jsonl for every family.

With an operation's name behind it, the families are those that the operation alone has.
"""

import sys
from pathlib import Path

from oracles.formats import FORMATS
from softcheck.cases.corpus import encode_case
from softcheck.cases.families import FAMILIES, OF_OPERATIONS, cases_of


def family_file(family: str) -> bytes:
    """Content of a family's corpus file: one line per case, all dtypes."""
    return b"".join(encode_case(case) for dtype in FORMATS for case in cases_of(family, dtype))


def main(arguments: list[str]) -> int:
    """Writes the files. Returns 2 if the arguments are not one folder, and an operation that has families of its own, if any."""
    if len(arguments) not in (1, 2) or not {*arguments[1:]} <= {*OF_OPERATIONS}:
        sys.stderr.write(
            f"expected one folder, got {arguments}; usage: python -m softcheck.cases.families DIR [OPERATION]\n"
        )
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for family in OF_OPERATIONS[arguments[1]] if len(arguments) == 2 else FAMILIES:
        (folder / f"{family}.jsonl").write_bytes(family_file(family))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
