"""Descriptions read off the source are those of the declarations."""

import subprocess
import sys

import pytest

from softcheck.variants import registry
from softcheck.variants.registry import BUILTIN, descriptions, load


@pytest.mark.parametrize("name", BUILTIN)
def test_a_builtin_variants_line_is_what_it_declares(name):
    declared = load(name).declaration
    assert descriptions()[name] == f"{declared.description} [{', '.join(declared.dtypes)}]"


def test_a_variant_of_another_package_says_where_it_is(monkeypatch):
    monkeypatch.setattr(registry, "_entry_points", lambda: {"theirs": "their_package.kernels:softmax"})
    assert descriptions()["theirs"] == "offered by their_package.kernels:softmax"


def test_no_torch_is_needed():
    code = "import sys; from softcheck.variants.registry import descriptions; descriptions(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
