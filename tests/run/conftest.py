"""Fixtures that several tests of runs share."""

import importlib
import sys

import pytest

from softcheck.run import blame


@pytest.fixture
def full_of_numbers(tmp_path, monkeypatch):
    """Imports a module of the working folder, which hypothesis takes for the user's own and draws the constants of."""
    name = "full_of_numbers"
    numbers = ", ".join(f"{n}.0625" for n in range(200))
    (tmp_path / f"{name}.py").write_text(f"NUMBERS = [{numbers}, 123456789, 987654321]\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield lambda: importlib.import_module(name)
    sys.modules.pop(name, None)


@pytest.fixture
def without_heap_checks(monkeypatch):
    """As on a machine without glibc: a process whose heap is checked starts from nothing, which takes seconds."""
    monkeypatch.setattr(blame, "can_check_heap", lambda: False)
