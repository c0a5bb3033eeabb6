"""Runs probes on variants under Triton's interpreter: ``probing_child.py DTYPE PROBE,PROBE VARIANT...`` prints JSON.

One line per variant and probe: its name, the probe's, seconds, and the conclusion.
"""

import os
import sys
import time

os.environ["TRITON_INTERPRET"] = "1"

import msgspec
import torch

from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.registry import load


def main():
    torch.set_num_threads(1)
    dtype, probes, *specs = sys.argv[1:]
    for spec in specs:
        variant = load(spec)
        setting = Setting(declaration=variant.declaration, dtype=dtype, backend="interpreter")
        subject = Subject(variant, setting, torch.device("cpu"))
        for name in probes.split(","):
            probe = registry.load(name)
            begun = time.perf_counter()
            found = probe.conclude([(trial, probe.run(subject, trial)) for trial in probe.trials(setting)])
            seconds = time.perf_counter() - begun
            sys.stdout.buffer.write(msgspec.json.encode((spec, name, seconds, found)) + b"\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
