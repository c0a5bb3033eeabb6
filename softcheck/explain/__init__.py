"""Meanings of each kind of finding, verdict, probe and column, from ``words.toml``, for the report and ``softcheck explain``."""

import re
from functools import cache
from pathlib import Path

import msgspec

from softcheck.contract import FindingKind
from softcheck.errors import UsageError, near_matches
from softcheck.operations.registry import DEFAULT
from softcheck.probes.registry import described

__all__ = ["Explanation", "Words", "explanation_of", "files", "meaning_of", "of_kind", "pages", "words"]

_KNOWN = '@variant(known_defects=[KnownDefect(kinds=["{}"], reason="...")]), which gives the verdict known'


class Explanation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The meaning of a word of a report. Parts that do not apply are empty."""

    meaning: str = ""
    """One sentence or more, without a capital and without a full stop at the end."""
    example: str = ""
    """The smallest function that shows it, at its end, without imports of torch, triton and softcheck."""
    shown_by: str = ""
    """Options of ``softcheck report`` under which the example shows it, in float16."""
    cause: str = ""
    """The usual cause."""
    mend: str = ""
    declare: str = ""
    """The declaration under which it is no finding; ``known defect`` stands for that of a defect of the kind."""
    shows: FindingKind | None = None
    """The kind of finding whose example, cause and fix are a probe's too."""
    meanings: dict[str, str] = {}
    """Meanings by operation, where softmax's does not fit."""
    mends: dict[str, str] = {}
    """Fixes by operation, where they differ from softmax's."""

    @property
    def program(self) -> str:
        """The example with its imports."""
        modules = {"torch": "torch", "triton": "triton", "triton.language as tl": "tl", "softcheck": "softcheck"}
        imports = [f"import {name}" for name, word in modules.items() if re.search(rf"\b{word}\.", self.example)]
        return "\n".join([*imports, *(["", ""] if imports else []), self.example.strip("\n"), ""])

    @property
    def function(self) -> str:
        """The name of the example's function."""
        return str(re.findall(r"^(?:def )?(\w+)(?:\(| =)", self.example, re.MULTILINE)[-1])

    def text(self, name: str) -> str:
        """All parts as plain text that is Markdown too."""
        parts = [f"# {name}", _sentence(self.meaning)]
        if self.example:
            shown = f"$ softcheck report example.py:{self.function} --dtype float16 {self.shown_by}"
            parts += [f"```python\n{self.program}```", f"```console\n{shown}\n```"]
        last = {"Usual cause": self.cause, "Fix": self.mend, "To declare it": self.declare}
        return "\n\n".join([*parts, *(f"{title}: {said}." for title, said in last.items() if said)]) + "\n"


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The explanations of ``words.toml``."""

    kinds: dict[FindingKind, Explanation]
    verdicts: dict[str, Explanation]
    columns: dict[str, Explanation]
    probes: dict[str, Explanation]


@cache
def words() -> Words:
    """Every explanation, with what those of kinds and probes have in common filled in."""
    found = msgspec.toml.decode((Path(__file__).parent / "words.toml").read_bytes(), type=Words)
    for kind, page in found.kinds.items():
        if page.declare == "known defect":
            found.kinds[kind] = msgspec.structs.replace(page, declare=_KNOWN.format(kind))
    probes = {name: _of_probe(found, name, looks_for) for name, looks_for in described().items()}
    return msgspec.structs.replace(found, probes=probes)


def _of_probe(found: Words, name: str, looks_for: str) -> Explanation:
    own = found.probes.get(name, Explanation())
    like = own if own.shows is None else found.kinds[own.shows]
    return msgspec.structs.replace(
        own,
        meaning=f"the probe {name} reports {looks_for}; softcheck report --probe {name} runs it alone",
        shown_by=f"--probe {name}",
        **{field: getattr(like, field) for field in ("example", "cause", "mend")},
    )


def of_kind(kind: FindingKind, operation: str = DEFAULT) -> Explanation:
    """The explanation of a kind of finding, with the meaning and the fix for an operation. The example stays softmax's."""
    page = words().kinds[kind]
    meaning, mend = page.meanings.get(operation, page.meaning), page.mends.get(operation, page.mend)
    return msgspec.structs.replace(page, meaning=meaning, mend=mend)


def pages() -> dict[str, Explanation]:
    """Every explanation by its name: kinds, verdicts, probes, columns."""
    found = words()
    probe = found.probes["regimes"]
    both = msgspec.structs.replace(probe, meaning=f"{found.columns['regimes'].meaning}; {probe.meaning}")
    kinds = {str(kind): page for kind, page in found.kinds.items()}
    return {**kinds, **found.verdicts, **found.probes, **found.columns, "regimes": both}


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


def meaning_of(word: str) -> str:
    """The meaning of a column, a verdict, a kind or a probe as a sentence; empty for a word that has none."""
    page = pages().get(word.replace("/ ", "/").removesuffix("*"))
    return "" if page is None else _sentence(page.meaning)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _file_name(name: str) -> str:
    return re.sub("[^a-z0-9]+", "_", name.replace("Σ", "sum").lower()).strip("_")


def _plain(name: str) -> str:
    return name.lower().removesuffix("*").replace("\N{MINUS SIGN}", "_").replace("-", "_").replace(" ", "_")
