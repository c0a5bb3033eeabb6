"""Verdicts of what runs on a CPU do not depend on the vector units that torch makes use of."""

import json
from pathlib import Path

import pytest
import torch
from command import softcheck

LIBRARY = Path(__file__).parents[1] / "kernels" / "library.py"
BUILTIN = ("torch", "eager", "eager_compiled")
RIGHT = ("functional", "module", "through_the_logarithm")
IN_SEQUENCE = "over_the_first_dimension"
WRONG = "drops_the_last_column"
ABSORBED = "cancellation/absorbed-*"
SUMS = [word for cases in (ABSORBED, "uniform/*", "widths/*", "layout/*") for word in ("--case", cases)]
"""Cases whose figures hang on the order in which a row is added up."""


def capabilities():
    found = ["default"]
    if torch.cpu._is_avx2_supported():
        found.append("avx2")
    if torch.cpu._is_avx512_supported():
        found.append("avx512")
    return found


@pytest.fixture(scope="module")
def reports():
    """A report in float32 by capability, in which torch acts like a CPU with these vector units."""
    names = [*BUILTIN, *(f"{LIBRARY}:{name}" for name in (*RIGHT, IN_SEQUENCE, WRONG))]
    command = ["report", *names, *SUMS, "--dtype", "float32", "--device", "interpreter", "--format", "json"]
    done = {capability: softcheck(*command, ATEN_CPU_CAPABILITY=capability) for capability in capabilities()}
    assert {one.returncode for one in done.values()} == {1}
    return {capability: json.loads(one.stdout) for capability, one in done.items()}


def verdicts(found):
    return {
        v["name"].rpartition(":")[2]: (
            v["verdict"],
            sorted((f["kind"], f["case"], f.get("known")) for f in v["findings"]),
        )
        for v in found["variants"]
    }


@pytest.mark.parametrize("capability", capabilities())
def test_verdicts_are_those_of_any_cpu(reports, capability):
    found = verdicts(reports[capability])
    assert {name: verdict for name, (verdict, _) in found.items()} == {
        "torch": "pass",
        "eager": "pass",
        "eager_compiled": "pass",
        **dict.fromkeys((*RIGHT, IN_SEQUENCE), "pass"),
        WRONG: "fail",
    }
    ours = {name: found[name] for name in BUILTIN}
    assert ours == {name: verdicts(reports["default"])[name] for name in BUILTIN}


def test_a_sum_in_sequence_is_said_in_a_note(reports):
    found = reports["default"]
    [row] = [v for v in found["variants"] if v["name"].endswith(IN_SEQUENCE)]
    assert row["max_standard_share"] > 2
    assert any("beyond the standard contract" in note and IN_SEQUENCE in note for note in found["notes"])
