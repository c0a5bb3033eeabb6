"""Details that a run keeps for the page: errors along rows, shapes by what they showed, and the elements around a witness."""

import numpy as np
from command import softcheck

from softcheck.cases.importing import case_from_bits
from softcheck.contract import FindingKind, Violation
from softcheck.judge.measurement import unmeasured
from softcheck.probes.outcome import Conclusion, Shown
from softcheck.report.findings import shapes_of
from softcheck.report.json_format import parse
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import ProbeTask

WRONG_BEYOND_512 = """
import torch

def softmax(x):
    y = torch.softmax(x, dim=-1)
    if x.shape[1] > 512:
        y[:, -1] = 1.0
    return y
"""


def test_a_report_keeps_what_its_page_draws(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG_BEYOND_512)
    widths = ["--case", "negative/minus-100-129/float16", "--case", "negative/minus-100-513/float16"]
    done = softcheck(
        "report", f"{path}:softmax", "--dtype", "float16", *widths, "--probe", "sizes", "--quick", "--format", "json"
    )
    assert done.returncode == 1, done.stderr
    (row,) = parse(done.stdout).variants
    for peaks in (row.error_by_distance, row.error_by_column):
        assert max(peak.ulp for peak in peaks) == float(f"{row.max_ulp:.6g}") > 1000
        assert all(peak.bound > 0.49 for peak in peaks)
    # The wrong column is 512, the first of its bin; before it nothing is off by more than rounding.
    assert [peak.below for peak in row.error_by_column if peak.ulp > 0.6] == [1024.0]
    assert [peak.below for peak in row.error_by_column if peak.share > 1] == [1024.0]
    wrong, right = (row.judged_shapes[name].split() for name in ("ulp_exceeds_bound", "right"))
    assert "2x513" in wrong
    assert not any(int(word.partition("x")[2].partition("-")[0]) <= 512 for word in wrong)
    assert "2x129" in right
    kept = {(finding.kind, finding.probe): finding.around for finding in row.findings}
    around = kept[FindingKind.ULP_EXCEEDS_BOUND, None]
    assert around is not None
    assert (around.first_column, around.outputs.split()[-1], around.row) == (504, "3c00", None)


def case_of(rows, columns):
    return case_from_bits(np.zeros((rows, columns), np.uint16), "float16", provenance="test", name=f"{rows}x{columns}")


def test_refusals_beyond_a_limit_are_no_kind():
    def measured(case, *kinds):
        return case, unmeasured((min(case.shape[0], 2), case.shape[1]), tuple(Violation(kind, "no") for kind in kinds))

    raised, wrong = FindingKind.RAISED, FindingKind.ULP_EXCEEDS_BOUND
    cases = [measured(case_of(3, 4)), measured(case_of(1, 8), raised), measured(case_of(1, 9), raised, wrong)]
    conclusion = Conclusion(
        findings=(Shown("a", Violation(raised, "no")), Shown("a", Violation(wrong, "no"))),
        tried=((2, 100), *((2, n) for n in range(1, 8)), (1, 8)),
        failing={raised: ((2, 100),), wrong: ((2, 7),)},
    )
    task = ProbeTask(variant="v", dtype="float16", probe="sizes")
    probed = ProbeResult(task=task, labels=("a",), conclusion=conclusion, abandoned=0, seconds=1.0)
    found = shapes_of(cases, [probed], lambda violation, _: violation.kind is raised)
    assert found == {"refused": "1x8-9 2x100", "ulp_exceeds_bound": "1x9 2x7", "right": "2x1-6"}
    found = shapes_of(cases, [probed], lambda *_: False)
    assert found["raised"] == "1x8-9 2x100"
