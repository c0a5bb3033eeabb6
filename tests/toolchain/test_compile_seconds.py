"""A kernel's compile time is known again if Triton's cache holds the kernel."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def metered(cache, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
    environment["TRITON_CACHE_DIR"] = str(cache)
    command = [sys.executable, str(HERE / "metering_child.py"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    kernels, seconds, has_unknown = done.stdout.split()
    return int(kernels), float(seconds), has_unknown == "True"


def test_a_warm_cache_costs_what_the_cold_one_did(tmp_path):
    kernels, cold, unknown = metered(tmp_path)
    assert (kernels, unknown) == (1, False)
    assert 0.01 < cold < 60
    kernels, warm, unknown = metered(tmp_path)
    assert (kernels, unknown) == (1, False)
    assert abs(warm - cold) < 0.001


def test_what_was_compiled_unseen_has_no_known_cost(tmp_path):
    assert metered(tmp_path, "unmetered") == (0, 0.0, False)
    assert metered(tmp_path) == (1, 0.0, True)
