"""Meanings of each kind of finding, verdict, probe and column, in words that the report and ``softcheck explain`` share."""

import dataclasses
import re

from softcheck.contract import FindingKind
from softcheck.errors import UsageError, near_matches
from softcheck.explain.by_operation import MEANINGS, MENDS
from softcheck.explain.columns import COLUMNS
from softcheck.explain.explanation import Explanation
from softcheck.explain.kinds import KINDS
from softcheck.explain.probes import of_probes
from softcheck.explain.verdicts import VERDICTS

__all__ = ["Explanation", "explanation_of", "files", "of_kind", "pages"]


def of_kind(kind: FindingKind, operation: str = "softmax") -> Explanation:
    """The explanation of a kind of finding, with the meaning and the fix for an operation. The example stays softmax's."""
    page = KINDS[kind]
    return dataclasses.replace(
        page,
        meaning=MEANINGS.get(kind, {}).get(operation, page.meaning),
        mend=MENDS.get(kind, {}).get(operation, page.mend),
    )


def pages() -> dict[str, Explanation]:
    """Every explanation by its name: kinds, verdicts, probes, columns."""
    both = {
        "regimes": dataclasses.replace(
            of_probes()["regimes"], meaning=f"{COLUMNS['regimes'].meaning}; {of_probes()['regimes'].meaning}"
        )
    }
    return {**{str(kind): found for kind, found in KINDS.items()}, **VERDICTS, **of_probes(), **COLUMNS, **both}


def files() -> dict[str, str]:
    """Every explanation as a page of Markdown, and their index, by the names of their files."""
    found = {f"{_file_name(name)}.md": (name, page) for name, page in pages().items()}
    index = "".join(f"- [{name}]({file}): {page.meaning.partition('. ')[0]}\n" for file, (name, page) in found.items())
    head = "# Words of a report\n\n`softcheck explain WORD` prints these pages, and `softcheck explain --output-dir FOLDER` writes them.\n\n"
    return {"README.md": head + index} | {file: page.text(name) for file, (name, page) in found.items()}


def explanation_of(name: str) -> Explanation:
    """The explanation of a name in any case, with underscores, hyphens or spaces; raises UsageError for an unknown one."""
    known = {_plain(each): page for each, page in pages().items()}
    if _plain(name) not in known:
        raise UsageError(f"nothing is called {name!r}; {near_matches(name, list(pages()))}")
    return known[_plain(name)]


def _file_name(name: str) -> str:
    return re.sub("[^a-z0-9]+", "_", name.replace("Σ", "sum").lower()).strip("_")


def _plain(name: str) -> str:
    return name.lower().removesuffix("*").replace("\N{MINUS SIGN}", "_").replace("-", "_").replace(" ", "_")
