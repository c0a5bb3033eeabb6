"""Runs a probe in this process on a torch function, the way the worker does."""

import torch

from softcheck.probes import meetings, registry
from softcheck.probes.base import Setting, Subject
from softcheck.probes.space.attempts import Attempts
from softcheck.probes.space.way import Way
from softcheck.variants.adapt import adapted
from softcheck.variants.declaration import declaration_of
from softcheck.variants.registry import LoadedVariant, load


def subject_of(function, dtype="float32", *, effort="normal", seed=0):
    """A function on the CPU, as a probe gets it."""
    declaration = declaration_of(function)
    setting = Setting(declaration=declaration, dtype=dtype, backend="interpreter", effort=effort, seed=seed)
    name = function.__name__
    called = adapted(function, name, declaration.call, declaration.computed) if declaration.call else function
    return Subject(LoadedVariant(name, called, declaration), setting, torch.device("cpu"))


def made_in(function, dtype="float32", axes=("gradient", "asked"), *ways):
    """Returns the findings of a function, or a subject, in some ways: those of all values of the axes, each alone, where none is named."""
    space = meetings._space_of(function if isinstance(function, Subject) else subject_of(function, dtype))
    attempts = Attempts(space, 0)
    alone = [f"{axis.name}={value}" for axis in space.axes if axis.name in axes for value in axis.values[1:]]
    made = {way: attempts.make(Way.parse(way, space.axes)) for way in ways or alone}
    found = {way: [*each.violations, *([each.refused] if each.refused else [])] for way, each in made.items()}
    return {way: each for way, each in found.items() if each}


def conclusion(probe, function, dtype="float32", *, effort="normal", seed=0, labels=None):
    """Conclusion of a probe, or of its trials with these labels, on a function on the CPU."""
    found = registry.load(probe)
    subject = subject_of(function, dtype, effort=effort, seed=seed)
    trials = [trial for trial in found.trials(subject.setting) if labels is None or trial.label in labels]
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
