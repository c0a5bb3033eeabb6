"""Digests of the code that a run depends on, so that a journal is not resumed after a change to that code."""

import hashlib
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path

import oracles
import softcheck
from softcheck.variants._import import working_folder_on_path
from softcheck.variants.registry import resolve


def fingerprints(variants: Iterable[str]) -> dict[str, str]:
    """Digests of softcheck's own code and of each variant's code that is not part of softcheck, by name."""
    found = {"softcheck": _of_contents(f for package in (softcheck, oracles) for f in _files(package.__path__[0]))}
    for name in variants:
        where = resolve(name)
        if where.kind == "file":
            # A variant's file may import the modules beside it.
            found[name] = _of_contents(sorted(Path(where.location).parent.glob("*.py")))
        elif where.kind != "builtin":
            found[name] = _of_module(where.location)
    return found


def changed(found: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Returns the reason why a journal with the fingerprints ``found`` can't be resumed under ``now``, or None."""
    names = [name for name, digest in now.items() if found.get(name) != digest]
    return f"the source of {', '.join(names)} has changed since" if names else None


def _of_module(location: str) -> str:
    """A digest of file sizes and modification times, since a package may be large.

    Only the outermost package is located; nothing is imported.
    """
    with working_folder_on_path():
        specification = importlib.util.find_spec(location.partition(".")[0])
    if specification is None:
        return "missing"
    folders = specification.submodule_search_locations
    files = _files(folders[0]) if folders else [Path(specification.origin or "")]
    states = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()]
    return hashlib.sha256(repr(states).encode()).hexdigest()


def _files(folder: str) -> list[Path]:
    return sorted(Path(folder).rglob("*.py"))


def _of_contents(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        # Not the folder, which may be another one on each machine.
        digest.update(f"{file.name} {len(content)}\n".encode(errors="surrogateescape"))
        digest.update(content)
    return digest.hexdigest()
