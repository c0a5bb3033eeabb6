"""Base class of probes. A probe makes trials on one variant in one dtype, and draws a conclusion from their outcomes.

A probe is a module of this package that defines ``PROBE``; ``softcheck.probes.registry`` names it. It runs in a worker
process. Each trial's small outcome is sent to the parent, and journalled, before the next trial begins, so that a trial
that ends its process costs a ``crash`` on that trial alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch

from oracles.formats import FORMATS, Format
from softcheck.contract import FindingKind
from softcheck.operations.operation import Operation
from softcheck.probes.outcome import Conclusion, Outcome, RandomRows, Shown
from softcheck.probes.registry import Effort
from softcheck.variants.declaration import Backend, Declaration
from softcheck.variants.registry import LoadedVariant

_MOST_NUMBERS = 1 << 26
"""Numbers of operands and answers of one call, each of which takes some 50 bytes while operands are made."""

_MOST_HEADS = 65_535
"""Heads of one call: published attention kernels, torch's among them, have batch times heads in a grid's second dimension."""

_MOST_CALLS = 64
"""Rows that are calls of their own, each of which takes a millisecond on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything that trials may depend on. The same setting gives the same trials in every process."""

    declaration: Declaration
    dtype: str
    backend: Backend
    effort: Effort = "normal"
    """How much is tried."""
    axis: str | None = None
    """The way to call in place of a plan of ways, as ``softcheck.probes.space`` writes it; None for a plan."""
    seed: int = 0
    """Seed of all random inputs. When a trial is made it is the trial's own seed, so that no two trials share a row."""
    widest: int | None = None
    """Columns beyond which kernels would take too long to compile; None for no such limit."""
    time_share: float = 1.0
    """Part of its budget that a probe takes, at least 1 on a GPU."""

    @property
    def quick(self) -> bool:
        """True to make only the few trials that show most."""
        return self.effort == "quick"

    @property
    def fmt(self) -> Format:
        """The dtype's format."""
        return FORMATS[self.dtype]

    @property
    def on_gpu(self) -> bool:
        """True if kernels run on a GPU; otherwise Triton's interpreter runs them, at some 6 ms per program."""
        return self.backend == "cuda"

    @property
    def operation(self) -> Operation:
        """The operation that the declaration names."""
        return self.declaration.computed

    def fewer(self, rows: int, columns: int) -> int:
        """Returns so many rows, or as many fewer as each has more numbers of operands and answers than one of softmax."""
        found = max(1, rows // self.operation.per_logit(columns))
        return min(found, self.most_heads if self.has_heads else _MOST_CALLS if self.has_row_calls else found)

    def held(self, counts: Iterable[int], columns: int) -> tuple[int, ...]:
        """Returns those of the row counts whose operands and answers leave a GPU room for those of other workers.

        In place of more heads than a call may have, it is that many.
        """
        asked = dict.fromkeys(min(n, self.most_heads) if self.has_heads else n for n in counts)
        return tuple(n for n in asked if n * columns * self.operation.per_logit(columns) <= _MOST_NUMBERS)

    @property
    def has_row_calls(self) -> bool:
        """True if each row of a matrix is a call of its own, as of a mean that has one answer for all of its rows."""
        return self.operation.matrix is not None and self.operation.answers_rows

    @property
    def has_heads(self) -> bool:
        """True if a row is a head of attention."""
        return "head_dim" in self.operation.parameters

    @property
    def cost_of_call(self) -> float:
        """Costs of a call beside those of a call on rows: without a GPU its answer takes some fifteen times as long to judge for heads."""
        return 15.0 if self.has_heads and not self.on_gpu else 1.0

    @property
    def has_products(self) -> bool:
        """True if a function multiplies matrices: in attention, or with a head behind hidden states."""
        return self.has_heads or bool(self.operation.parameters.get("head", 0.0))

    @property
    def most_heads(self) -> int:
        """The largest number of key heads with no more query heads than a grid's second dimension may have programs."""
        return _MOST_HEADS // int(self.operation.parameters.get("groups", 1))

    @property
    def has_rows_alone(self) -> bool:
        """True if a call takes rows and nothing beside them, and a row's answer does not depend on its place."""
        operation = self.operation
        return len(operation.operands) == 1 and operation.parts is None and not operation.parameters.get("causal")

    @property
    def has_matrices_alone(self) -> bool:
        """True if a call takes matrices alone, all of one shape, as a backward takes outputs and their gradients."""
        operands = self.operation.operands
        return self.has_rows_alone or (
            self.operation.parts is None and all(operand.dims == ("rows", "columns") for operand in operands)
        )

    def widest_of(self, columns: int) -> int:
        """Returns so many columns, or as many as the declaration promises and may be tried if these are fewer."""
        limits = (self.declaration.column_limit(self.dtype), self.widest)
        return min((columns, *(limit for limit in limits if limit is not None)))

    def takes(self, columns: int) -> bool:
        """True if the declaration promises this many columns and they may be tried."""
        return self.widest_of(columns) == columns


@dataclass(frozen=True, slots=True)
class Trial:
    """One step of a probe. The label is unique within the probe and stable: finding ids are ``probe/NAME/LABEL``."""

    label: str
    parameters: Any = None
    """Parameters for the probe's own ``run``."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The variant under the probe, the setting and the device."""

    variant: LoadedVariant
    setting: Setting
    device: torch.device

    def calling(self, function: Callable[..., Any]) -> "Subject":
        """Returns the subject with another function in the variant's place."""
        return replace(self, variant=replace(self.variant, function=function))


class Probe(ABC):
    """A way of calling a variant that exposes a broken contract."""

    @abstractmethod
    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns the trials for this setting, in order; none if the declaration leaves nothing to try."""

    @abstractmethod
    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes one trial. An exception of the variant is part of the outcome, and is not raised here."""

    def calls(self, subject: Subject, trials: Sequence[Trial]) -> Sequence[str]:  # noqa: ARG002 - a plan may depend on the function
        """Returns words for what the trials would do, a line each, for ``--dry-run``."""
        return [trial.label for trial in trials]

    def conclude(self, done: Sequence[tuple[Trial, Outcome]]) -> Conclusion:
        """Folds the outcomes: one finding for each kind and group of trials, whose labels agree before the last slash."""
        return self.concluded(done, folded(done))

    @staticmethod
    def concluded(done: Sequence[tuple[Trial, Outcome]], findings: Sequence[Shown]) -> Conclusion:
        """The conclusion with these findings: the trials made, why others were not, and the properties shown."""
        properties: dict[str, bool] = {}
        for _, outcome in done:
            for name, holds in outcome.properties.items():
                properties[name] = properties.get(name, True) and holds
        made = sum(outcome.skipped is None or bool(outcome.tried) for _, outcome in done)
        return Conclusion(
            findings=tuple(findings),
            trials=made,
            skipped=skipped_of(done),
            notes=tuple(dict.fromkeys(outcome.note for _, outcome in done if outcome.note is not None)),
            properties=properties,
            varied=tuple(dict.fromkeys(name for _, outcome in done for name in outcome.varied)),
            sampled=RandomRows.total(outcome.sampled for _, outcome in done),
        )


@dataclass(frozen=True, slots=True)
class TrialTable(Probe):
    """A probe as a table: trials by label, and the outcomes of each. The first that shows something ends a trial."""

    plan: Callable[[Setting], Iterable[tuple[str, Any]]]
    """Returns labels and parameters of the trials."""
    made: Callable[[Subject, Any], Iterable[Outcome | None]] = lambda subject, calls: calls(subject)
    """Makes the calls of a trial, None stands for those that show nothing; a plan may give it as the parameters."""

    def trials(self, setting: Setting) -> Sequence[Trial]:
        """Returns the trials of the plan."""
        return [Trial(*each) for each in self.plan(setting)]

    def run(self, subject: Subject, trial: Trial) -> Outcome:
        """Makes calls until one shows something."""
        found = (outcome for outcome in self.made(subject, trial.parameters) if outcome is not None)
        return next(iter(found), Outcome())


def skipped_of(done: Sequence[tuple[Trial, Outcome]]) -> tuple[str, ...]:
    """Reasons of the trials that were not made, each once, in order."""
    return tuple(dict.fromkeys(outcome.skipped for _, outcome in done if outcome.skipped is not None))


_NAMED = 6
"""Trials that a finding names beside its own."""


def folded(done: Sequence[tuple[Trial, Outcome]]) -> list[Shown]:
    """Returns one finding for each kind and group of trials: the first, with the largest share and the names of the others."""
    groups: dict[tuple[FindingKind, str], list[Shown]] = {}
    for trial, outcome in done:
        for violation in outcome.violations:
            shown = Shown(trial.label, violation, outcome.witnesses.get(violation.kind))
            groups.setdefault((violation.kind, trial.label.rpartition("/")[0]), []).append(shown)
    return [one_of(alike) for alike in groups.values()]


def one_of(alike: Sequence[Shown]) -> Shown:
    """Returns the first of findings of one kind, with the largest share and the names of the others."""
    first = alike[0]
    others = [name for name in dict.fromkeys(each.label for each in alike) if name != first.label]
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    also = f"; also in {', '.join(others[:_NAMED])}{more}" if others else ""
    share = max((each.violation.share for each in alike if each.violation.share is not None), default=None)
    violation = msgspec.structs.replace(first.violation, message=first.violation.message + also, share=share)
    return msgspec.structs.replace(first, violation=violation)
