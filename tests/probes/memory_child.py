"""Runs probes on variants under Triton's interpreter, in a process of its own: JSON of kinds by variant and probe.

Arguments: variants separated by commas, dtypes likewise, probes likewise.
"""

import json
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.registry import load


def main():
    torch.set_num_threads(1)
    variants, dtypes, probes = (words.split(",") for words in sys.argv[1:])
    shown = {}
    for name in variants:
        loaded = load(name)
        for dtype in dtypes:
            setting = Setting(declaration=loaded.declaration, dtype=dtype, backend="interpreter")
            subject = Subject(loaded, setting, torch.device("cpu"))
            for probe_name in probes:
                probe = registry.load(probe_name)
                done = [(trial, probe.run(subject, trial)) for trial in probe.trials(setting)]
                for found in probe.conclude(done).findings:
                    key = f"{name.rpartition(':')[2]} {dtype} {probe_name}"
                    shown.setdefault(key, []).append(str(found.violation.kind))
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
