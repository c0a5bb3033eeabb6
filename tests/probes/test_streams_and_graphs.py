"""The rules of histories that need a GPU, tried on stand-ins for its streams and graphs."""

import pytest
import stand_in_streams
import torch

from softcheck.probes.base import Setting, Subject
from softcheck.probes.histories import modes
from softcheck.probes.histories.modes import GRAPH, STREAM, STREAMS
from softcheck.probes.histories.player import Copies, Player
from softcheck.probes.histories.steps import Step
from softcheck.variants.registry import load

RIGHT = """
import torch
def softmax(x):
    weights = torch.exp(x - x.amax(dim=1, keepdim=True))
    return weights.div_(weights.sum(dim=1, keepdim=True))
"""

ONE_WORKSPACE = """
import torch
sums = torch.empty(64, 1)
def softmax(x):
    weights = torch.exp(x - x.amax(dim=1, keepdim=True))
    torch.sum(weights, dim=1, keepdim=True, out=sums[: len(x)])
    return weights / sums[: len(x)]
"""

WORKSPACES_IN_TURN = """
import torch
sums, calls = [torch.zeros(64, 1), torch.zeros(64, 1)], 0
def softmax(x):
    global calls
    calls += 1
    mine, other = sums[calls % 2], sums[(calls + 1) % 2]
    weights = torch.exp(x - x.amax(dim=1, keepdim=True))
    mine[: len(x)] += weights.sum(dim=1, keepdim=True)
    other.zero_()
    return weights / mine[: len(x)]
"""
"""Each call clears what the next one needs; a replayed call is always the same one."""


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch):
    stand_in_streams.install(monkeypatch)
    monkeypatch.setattr(modes, "work", lambda *_: None)


def subject_of(tmp_path, source):
    path = tmp_path / "kernels.py"
    path.write_text(source, encoding="utf-8")
    variant = load(f"{path}:softmax")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="cuda", effort="quick")
    return Subject(variant, setting, torch.device("cpu"))


def step(seed, **fields):
    return Step(**{"rows": 2, "columns": 129, "dtype": "float32", "seed": seed, **fields})


def played(tmp_path, source, *steps):
    """The kinds of promises that each step breaks."""
    subject = subject_of(tmp_path, source)
    player = Player(subject, Copies(subject))
    found = [{str(violation.kind) for violation in player.make(each)} for each in steps]
    assert player.overwritten() is None
    return found


ALL_MODES = [step(seed, mode=mode) for seed, mode in enumerate([STREAM, STREAMS, GRAPH, GRAPH, "", GRAPH])]


def test_a_right_function_passes_on_streams_and_as_a_graph(tmp_path):
    assert played(tmp_path, RIGHT, *ALL_MODES) == [set()] * len(ALL_MODES)


def test_a_workspace_of_two_streams_is_found_where_both_run_at_once(tmp_path):
    on_one, on_two = played(tmp_path, ONE_WORKSPACE, step(1, mode=STREAM), step(2, mode=STREAMS))
    assert on_one == set()
    assert "ulp_exceeds_bound" in on_two


def test_what_a_replayed_call_leaves_behind_is_found_at_the_next_replay(tmp_path):
    plain = played(tmp_path, WORKSPACES_IN_TURN, *(step(seed) for seed in range(4)))
    assert plain == [set()] * 4
    first, second = played(tmp_path, WORKSPACES_IN_TURN, step(1, mode=GRAPH), step(2, mode=GRAPH))
    assert "ulp_exceeds_bound" in first | second


def test_a_call_that_cannot_be_captured_is_made_as_it_is(tmp_path, monkeypatch):
    def refuse(_graph):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "graph", refuse)
    assert played(tmp_path, RIGHT, step(1, mode=GRAPH), step(2, mode=GRAPH)) == [set()] * 2
