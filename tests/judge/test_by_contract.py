"""A variant's bound gets a term for rescaling or torch's sums if a call shows them, and for nothing else."""

import os
import subprocess
import sys
from pathlib import Path

CHILD = Path(__file__).with_name("by_contract_child.py")


def test_each_term_of_the_bound_is_given_to_variants_that_show_it():
    """In a process of its own, since kernels are interpreted there."""
    done = subprocess.run(
        [sys.executable, str(CHILD)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:-1] == [
        "online undeclared: []",
        "multi_row undeclared: ['ulp_exceeds_bound']",
        "torch: ['ulp_exceeds_bound']",
        "online far beyond: ['ulp_exceeds_bound']",
        "torch sums after a kernel: []",
        "a kernel sums after torch: ['sum_violation', 'ulp_exceeds_bound']",
    ], done.stderr
