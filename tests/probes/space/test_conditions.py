"""Conditions of a function's own code are learnt from calls, and those that never came out together are sought on purpose."""

import numpy as np
import pytest
import torch

from softcheck.probes.base import Setting, Subject
from softcheck.probes.registry import load as probe
from softcheck.probes.space.conditions import Conditions
from softcheck.probes.space.way import Way, WayAxis
from softcheck.variants.registry import load

AXES = (
    WayAxis("columns", ("129", "2000")),
    WayAxis("layout", ("packed", "transposed")),
    WayAxis("scale", ("1", "2")),
    WayAxis("contents", ("ordinary", "zeros")),
)
CODE = """
import torch

changed = []


def branches(x, scale):
    if not x.numel():
        return "empty"
    if x.shape[-1] > 1024 and not x.is_contiguous():
        if scale != 1:
            return "sought"
    return "others" if changed.append(1) else "usual"
"""


@pytest.fixture
def branches(tmp_path):
    path = tmp_path / "branches.py"
    path.write_text(CODE)
    namespace = {}
    exec(compile(CODE, str(path), "exec"), namespace)
    return Conditions([path]), namespace


def made(branches, conditions, way):
    columns = int(way.get("columns", "129"))
    x = torch.zeros(columns, 3).t() if way.get("layout") else torch.zeros(3, columns)
    with conditions.watching(way):
        return branches(x, int(way.get("scale", "1")))


def test_a_branch_that_no_call_has_taken_is_reached(branches):
    conditions, namespace = branches
    seen = [made(namespace["branches"], conditions, Way())]
    seen += [made(namespace["branches"], conditions, Way.of(AXES, {axis.name: axis.values[1]})) for axis in AXES]
    assert "sought" not in seen
    sought = []
    for way in conditions.ways(AXES, np.random.default_rng(1)):
        sought.append((str(way), made(namespace["branches"], conditions, way)))  # noqa: PERF401 - the next way depends on it
    assert ("columns=2000,layout=transposed,scale=2", "sought") in sought
    assert len(sought) < 12, "what has come out is not sought again"
    assert all("zeros" not in way for way, _ in sought), "no condition follows the contents"


def test_what_a_question_would_change_is_not_asked(branches):
    conditions, namespace = branches
    for _ in range(3):
        made(namespace["branches"], conditions, Way())
    assert len(namespace["changed"]) == 3


KERNEL = """
import torch


def softmax(x, scale=1.0):
    y = torch.softmax(x.float() * scale, -1)
    if x.shape[-1] > 1024 and x.stride(-1) != 1 and scale > 1 and torch.is_inference_mode_enabled():
        y = y * {factor}
    return y.to(x.dtype)
"""


@pytest.mark.parametrize(("factor", "is_found"), [(1.05, True), (1.0, False)])
def test_a_fault_where_four_circumstances_meet_is_found_and_a_right_branch_left_alone(tmp_path, factor, is_found):
    path = tmp_path / "of_four.py"
    path.write_text(KERNEL.format(factor=factor))
    variant = load(f"{path}:softmax")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    subject, meetings = Subject(variant, setting, torch.device("cpu")), probe("meetings")
    done = [(trial, meetings.run(subject, trial)) for trial in meetings.trials(setting)]
    found = [shown.label for shown in meetings.conclude(done).findings]
    assert bool(found) is is_found
    for axis in ("columns=", "layout=", "scale=3", "mode=") if is_found else ():
        assert axis in found[0]
