"""Reading corpora: folders of JSON Lines files, one case per line, decoded strictly and without running anything; choosing among their cases."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from oracles.formats import FORMATS
from softcheck.cases.case import PACKED, Case, check_contents, check_fields
from softcheck.errors import UsageError, near_matches
from softcheck.operations.registry import OPERATIONS

_DECODER = msgspec.json.Decoder(Case)
_ENCODER = msgspec.json.Encoder()


class Line(NamedTuple):
    """One line of a corpus file: a case, or a message that says what is wrong with it."""

    file: Path
    number: int
    """Counted from 1."""
    case: Case | None
    problem: str | None

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def builtin_root() -> Path:
    """The folder that holds the corpora: inside the package where installed, beside it in the source tree."""
    package = Path(__file__).resolve().parents[1]
    for root in (package / "corpora", package.parent / "corpora"):
        if root.is_dir():
            return root
    raise UsageError(
        f"no corpora found in {package / 'corpora'} or {package.parent / 'corpora'}; reinstall softcheck, "
        "or name a corpus folder by its path"
    )


def builtin_names() -> list[str]:
    """Names of the corpora that come with softcheck: the folders in ``builtin_root()``."""
    return sorted(entry.name for entry in builtin_root().iterdir() if entry.is_dir())


def default_corpora(*, of_operations: bool = True) -> list[str]:
    """Corpora that run if none is named: the built-in ones, and the working folder's ``corpora/regressions``.

    Those named after an operation can be left out. Nothing else below ``corpora`` is read unasked: a project may keep files of
    its own in a folder of that name.
    """
    names = [name for name in builtin_names() if of_operations or name not in OPERATIONS]
    own = Path("corpora") / "regressions"
    if own.is_dir() and own.resolve().parent != builtin_root() and any(own.rglob("*.jsonl")):
        return [*names, f"./{own}"]
    return names


def encode_case(case: Case) -> bytes:
    """A case as one line of JSON, newline included."""
    # msgspec leaves a default out only where it is the same object.
    named = msgspec.structs.replace(case, layout=PACKED) if case.layout == PACKED else case
    return _ENCODER.encode(named) + b"\n"


def decode_case(line: bytes) -> Case:
    """Decodes a case from one line of JSON. Raises UsageError that says what is wrong and what was expected."""
    try:
        case = _DECODER.decode(line)
    except msgspec.ValidationError as error:
        raise UsageError(f"not a case: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}; expected one complete case on one line") from None
    check_fields(case)
    return case


def corpus_files(name_or_path: str | Path) -> list[Path]:
    """Returns the files of a corpus, sorted.

    The corpus is a built-in name, a folder (its ``*.jsonl`` files, at any depth) or one file. A built-in name wins over
    a path of the same spelling; write ``./name`` for the path. Raises UsageError if there is no such corpus, or no file
    that can be read.
    """
    text = str(name_or_path)
    is_name = isinstance(name_or_path, str) and "/" not in text
    if is_name and text in builtin_names():
        path = builtin_root() / text
    else:
        path = Path(name_or_path)
        if not path.exists():
            names = builtin_names()
            hint = near_matches(text, names) if is_name else f"built-in corpora: {', '.join(names)}"
            raise UsageError(f"no corpus {text!r}: neither a built-in name nor a file or folder; {hint}")
    return _files_below(path) if path.is_dir() else [_regular(path)]


def read_lines(file: Path) -> Iterator[Line]:
    """Yields every line of a corpus file that is not blank, malformed ones as problems; raises UsageError if the file can't be read."""
    try:
        content = _regular(file).read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {file}: {error.strerror}; check the path and its permissions") from None
    for number, text in enumerate(content.split(b"\n"), start=1):
        if text.strip():
            try:
                yield Line(file, number, decode_case(text), None)
            except UsageError as error:
                yield Line(file, number, None, str(error))


def load(names_or_paths: Iterable[str | Path]) -> list[Case]:
    """The cases of the named corpora, in order of files and lines.

    Raises UsageError for an unknown, missing, empty or unreadable corpus, for a malformed line (with file and line) and
    for an id that two lines share. A file that is named twice is read once.
    """
    places: dict[str, Line] = {}
    for file in _files_of(names_or_paths):
        for line in read_lines(file):
            if line.case is None:
                raise UsageError(f"{line}: {line.problem}")
            if (first := places.get(line.case.id)) is not None:
                raise UsageError(f"{line}: id {line.case.id!r} is in use at {first}; give one of the two another name")
            places[line.case.id] = line
    cases = [line.case for line in places.values() if line.case is not None]
    if not cases:
        named = ", ".join(repr(str(n)) for n in names_or_paths)
        raise UsageError(f"no cases in {named or 'an empty list of corpora'}; expected at least one line of JSON")
    return cases


def verify(names_or_paths: Iterable[str | Path]) -> list[str]:
    """Returns everything wrong with the named corpora, each with its file and line; empty if all is well.

    Checks every line's schema, id, rows, layout and digest (recipes are run), and that no id and no input occurs twice.
    Raises UsageError only if a corpus can't be found or read.
    """
    problems: list[str] = []
    ids: dict[str, Line] = {}
    digests: dict[str, Line] = {}
    for file in _files_of(names_or_paths):
        lines = list(read_lines(file))
        if not lines:
            problems.append(f"{file}: holds no cases; add some or remove the file")
        problems += [f"{line}: {problem}" for line in lines for problem in _problems_of(line, ids, digests)]
    return problems


def _problems_of(line: Line, ids: dict[str, Line], digests: dict[str, Line]) -> Iterator[str]:
    case = line.case
    if case is None:
        yield str(line.problem)
        return
    first = ids.setdefault(case.id, line)
    if first is not line:
        yield f"id {case.id!r} is in use at {first}"
    first = digests.setdefault(case.digest, line)
    if first is not line:
        yield f"the same input as the case at {first} (digest {case.digest})"
    try:
        check_contents(case)
    except UsageError as error:
        yield str(error)


def _files_of(names_or_paths: Iterable[str | Path]) -> Sequence[Path]:
    if isinstance(names_or_paths, (str, Path)):
        raise TypeError(f"expected a list of corpora, got the single {names_or_paths!r}; write [{names_or_paths!r}]")
    files = (file for name in names_or_paths for file in corpus_files(name))
    return list({file.resolve(): file for file in files}.values())


def _files_below(folder: Path) -> list[Path]:
    try:
        next(folder.iterdir(), None)
        files = sorted(folder.rglob("*.jsonl"))
    except OSError as error:
        raise UsageError(f"can't read the folder {folder}: {error.strerror}; check its permissions") from None
    if not files:
        raise UsageError(f"the corpus folder {folder} holds no *.jsonl file; add a case or name another folder")
    return [_regular(file) for file in files]


def _regular(file: Path) -> Path:
    """The file, unless it is a folder, device or pipe, whose reading might never end."""
    if not file.is_file():
        raise UsageError(f"{file} is not a regular file; expected JSON Lines, one case per line")
    return file


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
    kinds: dict[str, tuple[Collection[str], Callable[[Case], Collection[str]]]] = {
        "dtype": (dtypes, lambda case: [case.dtype]),
        "family": (families, lambda case: [case.family]),
        "case id": (globs, lambda case: [case.id]),
        "tag": (tags, lambda case: case.tags),
    }
    for kind, (words, has) in kinds.items():
        known = {word for case in pool for word in has(case)} | (set(FORMATS) if kind == "dtype" else set())
        for word in words:
            if not any(fnmatchcase(each, word) for each in known):
                # Hundreds of ids would help nobody.
                of = f"ids are family/name/dtype with the families {', '.join(sorted({case.family for case in pool}))}"
                hint = near_matches(word, sorted(known), of if kind == "case id" else None)
                raise UsageError(f"unknown {kind} {word!r}; {hint}")
    chosen = [
        case
        for case in pool
        if all(
            not words or any(fnmatchcase(each, word) for each in has(case) for word in words)
            for words, has in kinds.values()
        )
    ]
    if not chosen:
        said = "; ".join(f"{kind} {', '.join(words)}" for kind, (words, _) in kinds.items() if words)
        raise UsageError(f"none of {len(pool)} cases matches all of: {said or 'no restriction'}. Drop one of them")
    return chosen
