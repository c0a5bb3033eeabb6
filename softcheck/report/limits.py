"""Size limits in a report: sizes that a variant refuses, and sizes too wide for its kernels to be compiled."""

from collections.abc import Sequence

from softcheck.cases.case import Case
from softcheck.contract import FindingKind, Violation
from softcheck.report.model import Finding
from softcheck.report.reproduce import finding_id, reproduce_command
from softcheck.run.model import Run
from softcheck.run.probing import ProbeResult
from softcheck.run.session import CaseMeasurement
from softcheck.run.size_limits import SizeLimit, size_limits
from softcheck.run.widths import WidthLimit


class SizeLimits:
    """Limits of one variant in one dtype.

    A size that a declared defect explains, or that is promised, is a finding and no limit.
    """

    def __init__(
        self, run: Run, name: str, dtype: str, results: Sequence[CaseMeasurement], probed: Sequence[ProbeResult]
    ) -> None:
        self._run = run
        self._name = name
        self._dtype = dtype
        self.refused: list[SizeLimit] = size_limits(results, probed)
        self._uncompiled: list[WidthLimit] = [
            limit for limit in run.width_limits if (limit.variant, limit.dtype) == (name, dtype)
        ]
        self._cases: dict[int, list[Case]] = {}
        for result in results:
            for index, limit in enumerate(self.refused):
                if any(limit.covers(v) for v in result.measurement.violations):
                    self._cases.setdefault(index, []).append(result.case)
        self._too_wide = [
            result.case
            for result in results
            if any(result.case.shape[1] > limit.holds_to for limit in self._uncompiled)
            and result.measurement.skipped is not None
        ]

    def cover(self, violation: Violation, case_id: str) -> bool:
        """True if a broken promise is a limit's, and no declared defect's."""
        declaration = self._run.declarations[self._name]
        reason = declaration.explanation(violation, case_id, self._dtype, self._run.ready.backend)
        return reason is None and any(limit.covers(violation) for limit in self.refused)

    @property
    def holds(self) -> str | None:
        """Words for the size up to which the verdict holds, with the reason, for the verdict's line."""
        said = [f"to {limit.holds_to} columns; {limit}" for limit in self._uncompiled]
        said += [
            f"to {limit.answered} {limit.measure}; {limit.refused} are refused"
            for limit in self.refused
            if limit.measure is not None
        ]
        said += [
            "where there are elements; inputs without any are refused"
            for limit in self.refused
            if limit.measure is None
        ]
        return "; ".join(said) or None

    def notes(self) -> list[str]:
        """One sentence for each limit."""
        budget = self._run.options.compile_seconds
        said = [
            f"judged to {limit.holds_to} columns: {limit}, more than --compile-seconds {budget:g}"
            for limit in self._uncompiled
        ]
        for index, limit in enumerate(self.refused):
            cases = self._cases.get(index, [])
            said.append(f"{limit.words}{f' ({len(cases)} cases, {cases[0].id} the first)' if cases else ''}")
        return said

    def findings(self) -> list[Finding]:
        """Returns the limits as findings, one each, if every size is promised."""
        if not self._run.options.require_all_sizes:
            return []
        found = [
            self._finding(limit.kind, limit.words, self._cases.get(index, []))
            for index, limit in enumerate(self.refused)
        ]
        said = "which --require-all-sizes promises" if self._uncompiled else ""
        found += [
            self._finding(
                FindingKind.SIZE_REFUSED,
                f"not judged beyond {w.holds_to} columns: {w}; expected an output, {said}",
                self._too_wide,
            )
            for w in self._uncompiled
        ]
        return found

    def _finding(self, kind: FindingKind, message: str, cases: Sequence[Case]) -> Finding:
        backend = self._run.ready.backend
        if cases:
            smallest = min(cases, key=lambda case: (case.shape[0] * case.shape[1], case.id))
            shown, again = smallest.id, reproduce_command(self._name, smallest, backend, ())
        else:
            probe = "empties" if kind is FindingKind.EMPTY_REFUSED else "sizes"
            shown = f"probe/{probe}"
            again = f"softcheck report --variant {self._name} --dtype {self._dtype} --probe {probe} --device {backend}"
        return Finding(
            id=finding_id(self._name, self._dtype, kind, shown),
            kind=kind,
            case=shown,
            message=message,
            reproduce=f"{again} --require-all-sizes",
            count=max(1, len(cases)),
        )
