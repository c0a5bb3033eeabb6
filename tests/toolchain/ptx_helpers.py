"""PTX of variants, compiled in a process of its own: Triton interprets or compiles as it is told when it is imported."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from softcheck.operations.arithmetic import Arithmetic

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Kernel:
    """The parts of a kernel that ``read_arithmetic`` reads."""

    name: str
    asm: dict[str, str]


def compile_all(requests, folder):
    """Declared arithmetic and kernels of each (spec, dtype, columns) or (spec, dtype, columns, target), by request."""
    question, answer = folder / "requests.json", folder / "answers.json"
    question.write_text(json.dumps(requests))
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("ptx_child.py")), str(question), str(answer)],
        env=inherited | own,
        check=True,
    )
    compiled = json.loads(answer.read_text())
    return {
        tuple(request): (
            None if declared is None else Arithmetic(**declared),
            [Kernel(name, {"ptx": ptx}) for name, ptx in kernels],
        )
        for request, (declared, kernels) in zip(requests, compiled, strict=True)
    }
