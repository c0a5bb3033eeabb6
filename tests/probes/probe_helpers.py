"""Runs a probe in this process on a torch function, the way the worker does."""

import torch

from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.variants.adapt import adapted
from softcheck.variants.declaration import declaration_of
from softcheck.variants.registry import LoadedVariant, load


def conclusion(probe, function, dtype="float32", *, effort="normal", seed=0, labels=None):
    """Conclusion of a probe, or of its trials with these labels, on a function on the CPU."""
    found = registry.load(probe)
    declaration = declaration_of(function)
    setting = Setting(declaration=declaration, dtype=dtype, backend="interpreter", effort=effort, seed=seed)
    name = function.__name__
    called = adapted(function, name, declaration.call, declaration.computed) if declaration.call else function
    subject = Subject(LoadedVariant(name, called, declaration), setting, torch.device("cpu"))
    trials = [trial for trial in found.trials(setting) if labels is None or trial.label in labels]
    return found.conclude([(trial, found.run(subject, trial)) for trial in trials])


def conclusion_of_source(probe, tmp_path, source, dtype="float32", *, effort="normal"):
    """Conclusion of a probe on the ``softmax`` of a module of its own file."""
    path = tmp_path / "kernels.py"
    path.write_text(source, encoding="utf-8")
    function = load(f"{path}:softmax").function
    function.__name__ = f"{path}:softmax"
    return conclusion(probe, function, dtype, effort=effort)


def kinds(found):
    return {str(shown.violation.kind) for shown in found.findings}
