"""Runs probes in a process of its own: ``probing_child.py DEVICE DTYPE PROBE,PROBE VARIANT...`` writes lines of JSON.

DEVICE is interpreter or cuda. One line per variant and probe: variant, probe, seconds, conclusion.
"""

import os
import subprocess
import sys
import time
from pathlib import Path


def ask(device, dtype, probes, *specs):
    """Conclusions of the probes on the variants, each in a new process: [(variant, probe, seconds, conclusion)]."""
    import msgspec

    from softcheck.probes.outcome import Conclusion

    command = [sys.executable, str(Path(__file__)), device, dtype, ",".join(probes), *specs]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [msgspec.json.decode(line, type=tuple[str, str, float, Conclusion]) for line in done.stdout.splitlines()]


def main():
    device, dtype, probes, *specs = sys.argv[1:]
    if device == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"
    import msgspec
    import torch

    from softcheck.probes import registry
    from softcheck.probes.base import Setting, Subject
    from softcheck.variants.registry import load

    torch.set_num_threads(1)
    for spec in specs:
        variant = load(spec)
        setting = Setting(declaration=variant.declaration, dtype=dtype, backend=device)
        subject = Subject(variant, setting, torch.device("cpu" if device == "interpreter" else device))
        for name in probes.split(","):
            probe = registry.load(name)
            begun = time.perf_counter()
            found = probe.conclude([(trial, probe.run(subject, trial)) for trial in probe.trials(setting)])
            seconds = time.perf_counter() - begun
            sys.stdout.buffer.write(msgspec.json.encode((spec, name, seconds, found)) + b"\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
