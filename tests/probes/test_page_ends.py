"""Inputs beside unmapped memory: what reads beyond them ends, and what reads them alone goes on.

A planted kernel that reads a column too many and drops it is in tests/planted.
"""

import signal
import subprocess
import sys

import pytest
import torch

from softcheck.contract import FindingKind, Violation
from softcheck.probes.base import Setting
from softcheck.probes.memory.page_ends import PROBE, _MappedRange, bytes_at_an_edge
from softcheck.probes.outcome import Outcome
from softcheck.variants.declaration import Declaration

CPU = torch.device("cpu")
SETTING = Setting(declaration=Declaration(), dtype="float32", backend="interpreter")
CRASH = Outcome(violations=(Violation(FindingKind.CRASH, "ended with signal 11"),), fatal=True)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("size", [1, 774, 4096, 4097])
def test_all_bytes_can_be_read_and_written(size, at_end):
    held = bytes_at_an_edge(size, CPU, at_end=at_end)
    held.fill_(7)
    assert held.shape == (size,)
    assert held.untyped_storage().nbytes() == size
    assert int(held.sum(dtype=torch.int64)) == 7 * size


@pytest.mark.parametrize(("at_end", "beyond"), [(True, "held.data_ptr() + 774"), (False, "held.data_ptr() - 1")])
def test_the_next_byte_faults(at_end, beyond):
    script = (
        "import ctypes, torch\nfrom softcheck.probes.memory.page_ends import bytes_at_an_edge\n"
        f"held = bytes_at_an_edge(774, torch.device('cpu'), at_end={at_end})\nctypes.string_at({beyond}, 1)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -signal.SIGSEGV


@pytest.mark.parametrize(("end", "crashes"), [("mask.numel()", False), ("mask.numel() + 1", True)])
def test_what_reads_beyond_an_operand_ends_and_what_reads_it_alone_goes_on(tmp_path, end, crashes):
    # Bytes by their address: a kernel's load of the operand, whose value it drops.
    kernel = tmp_path / "reading.py"
    kernel.write_text(
        "import ctypes, torch\n\ndef softmax(x, mask):\n"
        f"    ctypes.string_at(mask.data_ptr(), {end})\n"
        "    return torch.softmax(x.masked_fill(mask, -float('inf')), dim=-1)\n"
    )
    script = (
        "import torch\nfrom softcheck.probes.base import Setting, Subject\nfrom softcheck.probes.memory.page_ends import PROBE\n"
        f"from softcheck.variants.registry import load\nvariant = load({f'{kernel}:softmax'!r})\n"
        "setting = Setting(declaration=variant.declaration, dtype='float32', backend='interpreter')\n"
        "subject = Subject(variant, setting, torch.device('cpu'))\n"
        "[trial] = [trial for trial in PROBE.trials(setting) if trial.label == 'end/operands-3x129']\n"
        "assert PROBE.run(subject, trial).violations == ()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == (-signal.SIGSEGV if crashes else 0), done.stderr


def concluded(*crashed):
    """The conclusion of a run whose trials of these labels ended their process."""
    trials = PROBE.trials(SETTING)
    outcomes = [CRASH if trial.label in crashed else Outcome() for trial in trials]
    return [
        (shown.label, shown.violation.kind)
        for shown in PROBE.conclude(list(zip(trials, outcomes, strict=True))).findings
    ]


def test_only_an_end_beside_unmapped_memory_is_a_read():
    assert concluded() == []
    for label in ("end/3x129", "begin/3x129", "end/transposed-3x129", "end/operands-3x129"):
        assert concluded(label) == [(label, FindingKind.OUT_OF_BOUNDS_READ)]


def test_what_ends_anywhere_is_no_read():
    packed = [f"{edge}/3x129" for edge in ("inside", "end", "begin")]
    assert {kind for _, kind in concluded(*packed)} == {FindingKind.CRASH}
    crash, read = concluded("inside/3x129", "end/transposed-3x129")
    assert (crash[1], read[1]) == (FindingKind.CRASH, FindingKind.OUT_OF_BOUNDS_READ)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("at_end", "offset", "faults"), [(True, 773, 0), (True, 774, 1), (False, 0, 0), (False, -1, 1)]
)
def test_a_range_on_a_gpu_is_read_to_its_edges_and_no_further(tmp_path, at_end, offset, faults):
    script = tmp_path / "peek.py"
    script.write_text(
        "import torch, triton\nimport triton.language as tl\n"
        "from softcheck.probes.memory.page_ends import bytes_at_an_edge\n"
        "@triton.jit\ndef peek(y, x, offset):\n    tl.store(y, tl.load(x + offset))\n"
        f"held = bytes_at_an_edge(774, torch.device('cuda'), at_end={at_end}).fill_(3)\n"
        f"y = torch.zeros(1, dtype=torch.uint8, device='cuda')\npeek[(1,)](y, held, {offset})\nassert int(y) == 3\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == faults, done.stderr
    assert ("illegal memory access" in done.stderr) == bool(faults)


@pytest.mark.parametrize("is_ruined", [False, True])
def test_memory_is_given_back_when_the_kernels_that_read_it_have_ended(monkeypatch, is_ruined):
    order = []

    def wait():
        order.append("wait")
        if is_ruined:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    mapped = object.__new__(_MappedRange)
    mapped._undo = [lambda: order.append("release"), lambda: order.append("unmap")]
    del mapped
    assert order == ["wait", "unmap", "release"]
