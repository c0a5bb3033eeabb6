"""The elements around a witness stand in the findings that a reader is shown, and are not repeated in all others."""

from msgspec.structs import replace
from sample_reports import FAILING, finding

from softcheck.contract import FindingKind, Surroundings
from softcheck.report.content import groups_of
from softcheck.report.findings import without_repetition
from softcheck.report.model import Cause

AROUND = Surroundings(first_column=0, inputs="0000", outputs="0000", exact="1", ulps="1024", bounds="0.5", row="0000")


def made(kind: FindingKind, case: str, known: str | None = None):
    return replace(finding(kind, case, "wrong", known=known), around=AROUND)


def test_the_first_of_each_group_keeps_them():
    ulp, total = FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION
    findings = (
        *(made(ulp, f"normal/{n}-columns/float16") for n in range(5)),
        made(ulp, "probe/sizes/columns-1-100"),
        made(ulp, "probe/shapes/packed"),
        made(total, "normal/9-columns/float16"),
        *(made(total, f"normal/{n}-columns/float16", known="declared") for n in range(3)),
    )
    causes = (Cause(text="wide rows", findings=(findings[3].id, findings[4].id)),)
    result = without_repetition(replace(FAILING, findings=findings, causes=causes))
    kept = [f.case for f in result.findings if f.around is not None]
    assert kept == [findings[n].case for n in (0, 3, 5, 6, 7, 8)]
    assert [replace(f, around=AROUND) for f in result.findings] == list(findings)
    for known in (True, False):
        assert all(group.first.around for group in groups_of(result, known=known))
