"""Facts about the planted kernels, read from their files without importing them: no torch, no Triton."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oracles.formats import FORMATS
from softcheck.cases.case import Case
from softcheck.cases.corpus import builtin_names, load
from softcheck.contract import FindingKind
from softcheck.operations.registry import OPERATIONS
from softcheck.probes.registry import described

FOLDER = Path(__file__).parent
PROBE_PREFIX = "probe/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One file of ``bugs/`` or ``controls/``: a softmax, and what a checker must say of it."""

    path: Path
    function: str
    """The function's name, which is that of an operation."""
    summary: str
    """The fault (of a control: the unusual feature), in one line."""
    reports: str
    """The docstring's remaining lines: whose report, or where the bug is known from."""
    expected: frozenset[FindingKind]
    """Kinds of which at least one must be found, in every one of ``dtypes``; empty for a control."""
    shown_by: tuple[str, ...]
    """Cases as FAMILY/NAME and probes as probe/NAME, or probe/NAME/TRIAL where one trial shows it, that suffice to show it, run in this
    order in one process."""
    dtypes: tuple[str, ...]
    backends: tuple[str, ...]
    """Backends on which the fault can show."""
    options: str = ""
    """The operation and the declarations with which a function without a decorator is judged, as ``--variant`` takes them."""

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def spec(self) -> str:
        """The variant, as ``softcheck report --variant`` takes it."""
        return f"{self.path}:{self.function}{self.options and '@'}{self.options}"

    @property
    def is_control(self) -> bool:
        return not self.expected

    def case_of(self, shown: str, dtype: str) -> Case:
        """The case FAMILY/NAME of ``shown_by`` in a dtype."""
        return case_named(shown, dtype)

    @property
    def probes(self) -> list[str]:
        return [shown.split("/")[1] for shown in self.shown_by if shown.startswith(PROBE_PREFIX)]


FOLDERS = (
    FOLDER,
    *(
        FOLDER / name
        for name in (
            "masked_softmax",
            "log_softmax",
            "logsumexp",
            "cross_entropy",
            "softmax_backward",
            "attention",
            "log_softmax_backward",
        )
    ),
)
"""Folders of an operation's kernels, each with ``bugs/`` and ``controls/``."""


def all_bugs() -> list[Planted]:
    """Every wrong kernel, one operation after the other."""
    return [planted for folder in FOLDERS for planted in bugs(folder)]


def all_controls() -> list[Planted]:
    """Every right kernel, one operation after the other."""
    return [planted for folder in FOLDERS for planted in controls(folder)]


def bugs(folder: Path = FOLDER) -> list[Planted]:
    """Every wrong kernel of a folder, by name."""
    return [read(path) for path in sorted((folder / "bugs").glob("*.py"))]


def controls(folder: Path = FOLDER) -> list[Planted]:
    """Every right kernel of a folder, by name."""
    return [read(path) for path in sorted((folder / "controls").glob("*.py"))]


def case_named(name: str, dtype: str) -> Case:
    """The case FAMILY/NAME in a dtype. Raises LookupError where there is none."""
    wanted = f"{name}/{dtype}"
    if wanted not in saved_cases():
        raise LookupError(
            f"no case {wanted!r} in the built-in corpora; see corpora/edge/{name.partition('/')[0]}.jsonl"
        )
    return saved_cases()[wanted]


@cache
def saved_cases() -> dict[str, Case]:
    """The cases of the built-in corpora by id."""
    return {case.id: case for case in load(builtin_names())}


_NEEDED = ("EXPECTED", "SHOWN_BY", "DTYPES", "BACKENDS")
"""Constants of every file. One whose function has no decorator names its OPERATION, its FUNCTION where that has another name, and what to DECLARE."""


def _function(module: ast.Module, folder: str) -> str:
    """Returns the operation that a folder names, or else the one that the file defines a function of."""
    if folder in OPERATIONS:
        return folder
    defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef)} - {"softmax"}
    return next((name for name in OPERATIONS if name in defined), "softmax")


@cache
def read(path: Path) -> Planted:
    """A file's own words. Raises ValueError that says which constant is missing or not one of the known words."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    summary, _, rest = (ast.get_docstring(module) or "").partition("\n")
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in {*_NEEDED, "OPERATION", "FUNCTION", "DECLARE"}
    }
    missing = {*_NEEDED} - set(constants)
    if missing or not summary:
        raise ValueError(f"{path}: expected a docstring and {', '.join(_NEEDED)}; missing {missing}")
    operation = constants.get("OPERATION")
    options = [] if operation is None else [f"operation={operation}", *filter(None, [constants.get("DECLARE")])]
    planted = Planted(
        path=path,
        function=constants.get("FUNCTION", operation or _function(module, path.parents[1].name)),
        options=",".join(options),
        summary=summary,
        reports=" ".join(rest.split()),
        expected=frozenset(FindingKind(kind) for kind in constants["EXPECTED"]),
        shown_by=constants["SHOWN_BY"],
        dtypes=constants["DTYPES"],
        backends=constants["BACKENDS"],
    )
    unknown = [*(set(planted.dtypes) - set(FORMATS)), *(set(planted.backends) - {"interpreter", "cuda"})]
    unknown += [name for name in planted.probes if name not in described()]
    if unknown:
        raise ValueError(f"{path}: unknown {unknown}; expected dtypes, backends and probes that exist")
    return planted


def table() -> str:
    """The README's lists of wrong and right kernels, in Markdown."""
    lines: list[str] = []
    for folder in FOLDERS:
        of, within = ("", "") if folder == FOLDER else (f" of {folder.name}", f"{folder.name}/")
        lines += [f"## {len(bugs(folder))} wrong kernels{of}", ""]
        lines += ["| kernel | what is wrong | must be found | where it shows |", "|---|---|---|---|"]
        for planted in bugs(folder):
            kinds = " or ".join(f"`{kind}`" for kind in sorted(planted.expected))
            where = "GPU" if planted.backends == ("cuda",) else "everywhere"
            link = f"[{planted.name}]({within}bugs/{planted.name}.py)"
            lines.append(f"| {link} | {planted.summary} | {kinds} | {where} |")
        lines += ["", f"## {len(controls(folder))} right kernels{of}", "", "| kernel | what is unusual |", "|---|---|"]
        lines += [f"| [{each.name}]({within}controls/{each.name}.py) | {each.summary} |" for each in controls(folder)]
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Writes the lists into the README, below its own words."""
    readme = FOLDER / "README.md"
    words = readme.read_text(encoding="utf-8").partition("## ")[0]
    readme.write_text(words + table(), encoding="utf-8")


if __name__ == "__main__":
    main()
