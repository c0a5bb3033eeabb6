"""Options that no call varied stand in the verdict's own line, and those that a probe varied do not."""

import json

import msgspec
import pytest
from sample_reports import MEASURED, PASSING

from softcheck.operations.registry import operation
from softcheck.probes.outcome import Conclusion
from softcheck.report import formats, probes
from softcheck.report.content import kinds
from softcheck.report.json_format import parse, render
from softcheck.report.page.sections import sentence
from softcheck.run.probing import ProbeResult
from softcheck.run.protocol import ProbeTask


def probed(*varied):
    task = ProbeTask(variant="f", dtype="float32", probe="options", effort="normal", seed=0)
    return [ProbeResult(task=task, conclusion=Conclusion(trials=1, varied=varied), seconds=0.0, labels=(), abandoned=0)]


def test_options_and_the_head_dimension_are_named_unless_a_probe_varied_them():
    softmax, attention = operation("softmax"), operation("attention")
    assert probes.not_judged(("gain", "dim"), softmax, probed("dim")) == ("gain",)
    assert probes.not_judged((), softmax, probed()) == ()
    assert probes.not_judged(("gain",), attention, probed()) == ("gain", "head_dim other than 64")
    assert probes.not_judged(("gain",), attention, probed("head_dim", "gain")) == ()


OPEN = msgspec.structs.replace(PASSING, not_judged=("gain", "head_dim other than 64"))


def test_the_verdict_line_of_every_format_names_them():
    words = "not judged: gain, head_dim other than 64"
    assert words in kinds(OPEN)
    assert words in sentence(OPEN)
    assert "not judged" not in kinds(PASSING) + sentence(PASSING)
    report = msgspec.structs.replace(MEASURED, variants=(OPEN,))
    for name in ("html", "markdown", "table"):
        text = formats.render(report, name).replace("\\_", "_")
        assert "not judged: gain" in " ".join(text.split()), name
    assert json.loads(render(report))["variants"][0]["not_judged"] == list(OPEN.not_judged)
    assert parse(render(report)) == report


@pytest.mark.parametrize("probe", ["torch_options", "options"])
def test_a_report_names_what_no_call_varied(tmp_path, probe):
    from command import softcheck

    source = "import torch\n\ndef softmax(x, dim=-1, gain=1.0, dtype=None):\n    return torch.softmax(x * gain, dim, dtype=dtype)\n"
    (tmp_path / "own.py").write_text(source)
    asked = ["--dtype", "float16", "--case", "ties/halves-9/float16", "--probe", probe, "--format", "json"]
    done = softcheck("report", str(tmp_path / "own.py:softmax"), *asked, "--device", "interpreter")
    (row,) = json.loads(done.stdout)["variants"]
    assert row["not_judged"] == (["gain"] if probe == "torch_options" else ["dim", "gain", "dtype"])
