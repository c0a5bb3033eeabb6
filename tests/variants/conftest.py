"""Child processes for the variants' tests.

Whether Triton interprets or compiles is decided when it is imported, and other tests share this process, so both kinds of
work are done by children: one with TRITON_INTERPRET set, one without.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Child:
    """A process that answers requests one by one; an exception over there is raised here as RuntimeError."""

    def __init__(self, script: str, **environment: str):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(Path(__file__).with_name(script))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
        )

    def ask(self, *request):
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        succeeded, answer = pickle.load(self._process.stdout)
        if not succeeded:
            raise RuntimeError(answer)
        return answer

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def interpreted():
    child = Child("interpreting_child.py", TRITON_INTERPRET="1")
    yield child
    child.close()


@pytest.fixture(scope="session")
def operating():
    """``operating(function, array)``: what a function of interpreted_operations.py returns for an array."""
    child = Child("operating_child.py", TRITON_INTERPRET="1")
    file = Path(__file__).with_name("interpreted_operations.py")
    yield lambda function, array: child.ask(f"{file}:{function}", array)
    child.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("triton-cache"))
    child = Child("compiling_child.py", TRITON_CACHE_DIR=cache, TRITON_DEFAULT_FP_FUSION="1")
    yield child
    child.close()
