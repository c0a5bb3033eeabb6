"""Widths that fail are found and named by a predicate; kernels that are right at every width are left alone."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from probe_helpers import conclusion, kinds

from oracles.formats import FORMATS, decode
from softcheck.contract import FindingKind, Violation
from softcheck.probes import registry, sweeps, walk
from softcheck.probes.base import Setting, Subject
from softcheck.probes.outcome import Outcome
from softcheck.probes.space.contents import unlike_rows
from softcheck.variants.declaration import declaration_of, variant
from softcheck.variants.registry import LoadedVariant


@pytest.fixture(autouse=True)
def _one_thread():
    """On a busy machine torch's threads make calls slow."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def over_all_widths(function, dtype="float16", widest=1100):
    """The probe's conclusion from the widths that it tries on a GPU, here on the CPU."""
    probe = registry.load("sizes")
    declaration = declaration_of(function)
    setting = Setting(declaration=declaration, dtype=dtype, backend="cuda")
    subject = Subject(LoadedVariant(function.__name__, function, declaration), setting, torch.device("cpu"))
    trials = [
        trial for trial in probe.trials(setting) if max(stop.shape.columns for stop in trial.parameters) <= widest
    ]
    return probe.conclude([(trial, probe.run(subject, trial)) for trial in trials])


def shapes_of(trial):
    return tuple(stop.shape for stop in trial.parameters)


def right(x):
    return torch.softmax(x, dim=-1)


def wrong_where(fails):
    def softmax(x):
        result = torch.softmax(x, dim=-1)
        return result * 1.25 if x.numel() and fails(x.shape[1]) else result

    return softmax


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_right_at_every_width(dtype):
    found = over_all_widths(right, dtype)
    assert found.findings == ()
    assert found.skipped == ()
    assert found.trials == 11


@pytest.mark.parametrize(
    ("words", "fails"),
    [
        (
            "odd N from 257 to 511 (128 of 600 widths tried, 1 to 600); at N = 257: ",
            lambda n: n % 2 and 256 < n < 512,
        ),
        ("N = 385 (1 of 600 widths tried, 1 to 600); at N = 385: ", lambda n: n == 385),
        ("N % 128 != 0 (596 of 600 widths tried, 1 to 600); at N = 1: ", lambda n: n % 128 != 0),
    ],
)
def test_the_failing_set_is_one_predicate(words, fails):
    found = over_all_widths(wrong_where(fails), widest=600)
    assert {str(shown.violation.kind) for shown in found.findings} >= {"ulp_exceeds_bound", "sum_violation"}
    assert len(found.findings) == len(kinds(found))
    [first] = [shown.violation for shown in found.findings if shown.violation.kind is FindingKind.SUM_VIOLATION]
    assert first.message.startswith(words)
    assert first.share > 100


def test_a_subset_under_the_interpreter():
    found = conclusion("sizes", wrong_where(lambda n: n > 512 and n & (n - 1)), "float16")
    [first] = [shown for shown in found.findings if shown.violation.kind is FindingKind.SUM_VIOLATION]
    assert first.violation.message.startswith("N > 512 with N not a power of two (")
    assert conclusion("sizes", right).findings == ()


def padded_with_zero(x):
    """Lanes up to the next power of two are read as 0.0."""
    lanes = 1 << max(x.shape[1] - 1, 0).bit_length()
    return torch.softmax(torch.nn.functional.pad(x, (0, lanes - x.shape[1])), dim=-1)[:, : x.shape[1]]


def last_tile_dropped(x):
    """Only whole tiles of 128 columns enter the sum."""
    whole = max(x.shape[1] // 128 * 128, 1)
    exponentials = torch.exp((x - x.amax(dim=1, keepdim=True)).float())
    return (exponentials / exponentials[:, :whole].sum(dim=1, keepdim=True)).to(x.dtype)


def leaves_tail(x):
    output = torch.empty_like(x)
    output[:, :512] = torch.softmax(x, dim=-1)[:, :512]
    return output


def test_padding_read_as_zero():
    found = over_all_widths(padded_with_zero, widest=300).findings
    [shown] = [s for s in found if s.violation.kind is FindingKind.SUM_VIOLATION]
    assert shown.violation.message.startswith("N not a power of two (")


def test_a_tail_left_out_of_the_sum():
    found = over_all_widths(last_tile_dropped, widest=400)
    assert any("N % 128 != 0" in shown.violation.message for shown in found.findings)


def test_a_tail_never_written():
    [shown] = [
        s for s in over_all_widths(leaves_tail, widest=600).findings if s.violation.kind is FindingKind.UNWRITTEN_OUTPUT
    ]
    assert shown.violation.message.startswith("N > 512 (")
    assert shown.label == "columns-501-600"


def test_raising_is_a_predicate_too():
    def refuses(x):
        if x.shape[1] > 256:
            raise ValueError("too wide")
        return torch.softmax(x, dim=-1)

    [shown] = over_all_widths(refuses, widest=400).findings
    assert shown.violation.kind is FindingKind.RAISED
    assert shown.violation.message.startswith("N > 256 (144 of 400 widths tried, 1 to 400); at N = 257: ValueError")


def test_widths_beyond_the_declared_limit_are_not_tried():
    @variant(max_columns=100)
    def narrow(x):
        assert x.shape[1] <= 100
        return torch.softmax(x, dim=-1)

    assert over_all_widths(narrow).trials == 1
    assert conclusion("sizes", narrow).findings == ()


def test_a_trial_that_ended_its_process_keeps_its_own_finding():
    probe = registry.load("sizes")
    setting = Setting(declaration=declaration_of(right), dtype="float16", backend="interpreter")
    done = [(trial, Outcome(tried=shapes_of(trial))) for trial in probe.trials(setting)]
    crash = Violation(FindingKind.CRASH, "the worker died")
    done[1] = (done[1][0], Outcome(violations=(crash,)))
    [shown] = probe.conclude(done).findings
    assert shown.violation == crash
    assert shown.label == done[1][0].label


def test_widths_after_a_crash_are_not_said_to_cost_too_much():
    probe = registry.load("sizes")
    setting = Setting(declaration=declaration_of(right), dtype="float16", backend="cuda")
    first, second, *_ = probe.trials(setting)
    shape = shapes_of(second)[3]
    crash = Violation(FindingKind.CRASH, "the device is lost")
    ended = Outcome(violations=(crash,), tried=(shape,), failing={FindingKind.CRASH: (shape,)}, fatal=True)
    found = probe.conclude([(first, Outcome(tried=shapes_of(first))), (second, ended)])
    [shown] = found.findings
    assert shown.violation.message.startswith(f"N = {shape.columns} (1 of 101 widths tried")
    assert found.skipped == ()


def test_costly_widths_are_left_out_which_is_said(monkeypatch):
    """Some kernels are compiled anew for each width."""

    class Compiling(walk.Walk):
        @contextmanager
        def _compiling(self):
            yield compiled

    compiled = []

    def compiled_anew(x):
        compiled.append(x.shape)
        return torch.softmax(x, dim=-1)

    monkeypatch.setattr(sweeps, "Walk", Compiling)
    found = over_all_widths(compiled_anew, widest=2**20)
    tried = {n for _, n in compiled}
    assert {512, 513, 1023, 2**17 + 1, 2**20} <= tried
    assert found.skipped == (
        "some widths were left out, since each trial has a budget of calls, elements and compilations",
    )
    assert 80 < len([n for n in tried if n <= 1100 and n not in sweeps._EDGES]) < 200


def test_the_rows_show_what_ordinary_ones_hide():
    fmt = FORMATS["float16"]
    rows = decode(unlike_rows(4, 300, fmt, 0), fmt)
    assert rows[0].max() == rows[0, -1] < -20
    assert rows[2].argmax() == 0
    assert rows[3].argmax() == 299
    assert np.ptp(rows, axis=1).max() < 40
