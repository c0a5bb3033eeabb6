"""Child processes that answer requests: Triton decides whether it interprets or compiles when it is imported.

Other tests share this process, so both kinds of work are done by children: one with TRITON_INTERPRET set, one without.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


class Child:
    """A process that answers requests one by one; an exception over there is raised here as RuntimeError."""

    def __init__(self, script: str, **environment: str):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=inherited | {"PYTHONPATH": os.pathsep.join(map(str, (HERE.parent, HERE)))} | environment,
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
