"""docs/cluster.md: the Slurm script runs as it stands, but for Slurm and GPUs, and manifests hold valid commands."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import click
import pytest
import yaml
from command import parse as accept
from test_cluster_report import MARK, marked, wait_for

from softcheck.report.json_format import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
MANIFESTS = [each for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) for each in yaml.safe_load_all(block)]
# Slurm starts a task on each GPU, and ends them with the step.
SRUN = """#!/bin/bash
trap 'kill $(jobs -p)' TERM
for task in $(seq "$SLURM_NTASKS"); do "$@" & done
wait
wait
"""


def test_the_slurm_script_judges_and_leaves_nothing_behind(tmp_path):
    (script,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    assert script.count("GPU=1") == 1
    assert script.count("softcheck report --dtype") == 1
    script = script.replace("GPU=1", "CPU=1")
    script = script.replace("softcheck report --dtype", "softcheck report torch --family widths --dtype")
    (tmp_path / "job.sh").write_text(script)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        "srun": SRUN,
        "dask": f'#!/bin/bash\nexec {sys.executable} -m dask "$@"\n',
        "softcheck": f'#!/bin/bash\nexec {sys.executable} -m softcheck "$@"\n',
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    mark = uuid.uuid4().hex
    slurm = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_CPUS_PER_TASK": "1"}
    search = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), MARK: mark}
    done = subprocess.run(
        ["bash", "job.sh"],
        cwd=tmp_path,
        env={**os.environ, **slurm, **search},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert [row.verdict for row in load(tmp_path / "report.json").variants] == ["pass"]
    wait_for(lambda: not marked(mark), 15.0)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bin", "job.sh", "report.json"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_manifests_hold_commands_that_are_accepted(manifest):
    from distributed.cli import dask_scheduler, dask_worker

    if manifest["kind"] == "Service":
        assert [port["port"] for port in manifest["spec"]["ports"]] == [8786]
        return
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    program, command, *words = container["command"]
    if program == "softcheck":
        accept([command, *words])
        return
    known: click.Command = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}[command]
    known.make_context(command, words)
    assert manifest["spec"]["selector"]["matchLabels"] == manifest["spec"]["template"]["metadata"]["labels"]


def test_the_page_has_a_job_and_a_cluster():
    assert [each["kind"] for each in MANIFESTS] == ["Job", "Service", "Deployment", "Deployment"]
