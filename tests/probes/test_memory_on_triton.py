"""The memory and layout probes on Triton kernels with planted faults, under the interpreter.

What they find in the built-in variants is tested in tests/accuracy.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "kernels" / "memory_faults.py"
PROBES = ("guard_bands", "unwritten", "neighbours", "input_untouched", "addresses")


def kinds_by_probe(variants, dtypes, probes=PROBES):
    """Kinds that the probes find, by "variant dtype probe"."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore:TRITON_DEFAULT_FP_FUSION",
            str(Path(__file__).with_name("memory_child.py")),
        ]
        + [",".join(words) for words in (variants, dtypes, probes)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_planted_faults_are_found_by_the_probe_made_for_them():
    names = ("right", "reads_one_beyond", "shares_a_maximum", "forgets_to_clear")
    found = kinds_by_probe([f"{PLANTED}:{name}" for name in names], ["float16"])
    assert "out_of_bounds_read" in found["reads_one_beyond float16 guard_bands"]
    assert found["reads_one_beyond float16 neighbours"] == ["row_dependence"]
    assert found["shares_a_maximum float16 neighbours"] == ["row_dependence"]
    assert found["forgets_to_clear float16 unwritten"] == ["unwritten_output"]
    assert [key for key in found if key.startswith("right ")] == []


def test_a_store_beyond_the_output_is_found_before_it_can_ruin_the_process():
    names = ("stores_one_beyond", "stores_by_the_strides_of_the_input", "right")
    found = kinds_by_probe([f"{PLANTED}:{name}" for name in names], ["float32"], ["guard_bands"])
    assert found == {f"{name} float32 guard_bands": ["out_of_bounds_write"] for name in names[:2]}
