"""The sweeps that make the results for a GPU, on a CPU: what they count, what they report, and that they go on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softcheck.cases.corpus import load

ROOT = Path(__file__).parents[2]
SWEEP = str(ROOT / "benchmarks" / "false_alarms.py")
FAST = ["--device", "cpu", "--dtypes", "float16", "--elements", "3000", "--families", "normal,padding,special,layout"]


def run(*command, cwd):
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def with_judge(code, *arguments, cwd):
    """The sweep with another judge in place of its own."""
    program = (
        "import importlib.util, sys, msgspec\n"
        f"spec = importlib.util.spec_from_file_location('false_alarms', {SWEEP!r})\n"
        "sweep = sys.modules['false_alarms'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(sweep)\n"
        "right = sweep.measured\n"
        f"{code}\n"
        "sweep.measured = judged\n"
        "sys.exit(sweep.main(sys.argv[1:]))\n"
    )
    return run("-c", program, *arguments, cwd=cwd)


def test_correct_variants_give_no_finding_and_every_family_is_judged(tmp_path):
    done = run(SWEEP, *FAST, "--variants", "torch,one_block,eager,hybrid", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout
    found = json.loads((tmp_path / "r.json").read_text())
    # eager and hybrid declare defects, so they are not among the correct ones.
    assert [run["variant"] for run in found["runs"]] == ["torch", "one_block"]
    for judged in found["runs"]:
        families = judged["families"]
        assert set(families) == {"normal", "padding", "special", "layout"}
        assert all(tally["launches"] > 0 for tally in families.values())
        assert families["special"]["special_rows"] > 0
        assert 0 < families["normal"]["max_share"] <= 1
        assert sum(tally["elements"] for tally in families.values()) >= 3000
        assert sum(judged["widths"].values()) == sum(tally["elements"] for tally in families.values())
    assert not (tmp_path / "r.json.inputs.jsonl").exists()


def test_other_operations_are_judged_too(tmp_path):
    families = ["--device", "cpu", "--dtypes", "float32", "--elements", "3000", "--families", "normal,special"]
    variants = ["--variants", "torch_log_softmax_backward"]
    done = run(SWEEP, *families, *variants, "--operation", "log_softmax_backward", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    [judged] = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert judged["families"]["special"]["special_rows"] > 0
    assert 0 < judged["families"]["normal"]["max_share"] <= 1


def test_a_wrong_operation_is_found(tmp_path):
    off = "judged = lambda x, y, fmt, variant: right(x, y * (1 + 2**-16), fmt, variant)"
    given = ["--device", "cpu", "--dtypes", "float32", "--elements", "3000", "--families", "normal"]
    given += ["--variants", "torch_log_softmax", "--operation", "log_softmax", "--output", "r.json"]
    done = with_judge(off, *given, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    [judged] = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert {finding["kind"] for finding in judged["findings"]} >= {"ulp_exceeds_bound"}


def test_several_processes_share_the_widths_and_each_variant_gets_all_its_elements(tmp_path):
    done = run(SWEEP, *FAST, "--jobs", "2", "--variants", "torch,one_block", "--output", "r.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((tmp_path / "r.json").read_text())
    parts = [json.loads(part.read_text()) for part in (tmp_path / "r.json.shards").glob("*.json")]
    for judged in found["runs"]:
        own = [run for part in parts for run in part["runs"] if run["variant"] == judged["variant"]]
        elements = sum(tally["elements"] for tally in judged["families"].values())
        assert elements == sum(sum(run["widths"].values()) for run in own) >= 3000
        assert min(map(int, judged["widths"])) <= 33
        assert max(map(int, judged["widths"])) > 4096
        assert set(judged["families"]) == {"normal", "padding", "special", "layout"}


def test_ended_run_goes_on_with_what_it_had(tmp_path):
    arguments = ["--variants", "torch", "--output", "r.json"]
    assert run(SWEEP, *FAST, *arguments, cwd=tmp_path).returncode == 0
    state = json.loads((tmp_path / "r.json").read_text())
    before = sum(tally["elements"] for tally in state["runs"][0]["families"].values())
    state["settings"]["elements"] = before + 20_000
    (tmp_path / "r.json").write_text(json.dumps(state))
    again = run(SWEEP, *FAST, *arguments, cwd=tmp_path)
    assert again.returncode == 2
    assert "--resume" in again.stderr, "nothing is overwritten"
    done = run(SWEEP, "--resume", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    resumed = json.loads((tmp_path / "r.json").read_text())
    assert len(resumed["runs"]) == 1
    for name, tally in resumed["runs"][0]["families"].items():
        assert tally["launches"] >= state["runs"][0]["families"][name]["launches"]
    assert sum(tally["elements"] for tally in resumed["runs"][0]["families"].values()) >= before + 20_000


def test_false_alarm_of_a_judge_is_reported_as_one_with_its_input(tmp_path):
    planted = (
        "from softcheck.contract import FindingKind, Violation\n"
        "def judged(x, y, fmt, variant):\n"
        "    found = right(x, y, fmt, variant)\n"
        "    alarm = Violation(FindingKind.ULP_EXCEEDS_BOUND, 'planted', row=len(x) - 1, column=0)\n"
        "    return msgspec.structs.replace(found, violations=(alarm,)) if x.shape[1] > 300 else found\n"
    )
    done = with_judge(planted, *FAST, "--variants", "torch", "--output", "r.json", "--elements", "40000", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FALSE ALARM" in done.stdout
    finding = json.loads((tmp_path / "r.json").read_text())["runs"][0]["findings"][0]
    assert "FALSE ALARM" in finding["numpy_judge"]
    assert "--corpus r.json.inputs.jsonl" in finding["reproduce"]
    cases = {case.id: case for case in load([str(tmp_path / "r.json.inputs.jsonl")])}
    assert cases[finding["case"]].shape == (1, finding["shape"][1])


def test_wrong_kernel_is_told_from_a_false_alarm(tmp_path):
    planted = (
        "def judged(x, y, fmt, variant):\n"
        "    if x.shape[1] > 8:\n"
        "        y[0, 0] = 0.75\n"
        "    return right(x, y, fmt, variant)\n"
    )
    arguments = ["--variants", "torch", "--output", "r.json", "--families", "normal", "--elements", "60000"]
    done = with_judge(planted, *FAST, *arguments, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    findings = json.loads((tmp_path / "r.json").read_text())["runs"][0]["findings"]
    assert "ulp_exceeds_bound" in {f["kind"] for f in findings}
    assert all("the variant is wrong" in f["numpy_judge"] for f in findings)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "--output"),
        (["--output", "r.json", "--families", "nomral"], 2, "unknown families nomral"),
        (["--resume", "absent.json"], 2, "absent.json"),
        (["--output", "r.json", "--device", "cpu", "--variants", "eager", "--dtypes", "float16"], 3, ""),
    ],
)
def test_wrong_usage_and_nothing_run_never_exit_0(tmp_path, arguments, code, said):
    done = run(SWEEP, *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
