"""Calls at one shape after the other show every promise that they break, and end where the process can't go on."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling import call, state
from softcheck.contract import FindingKind
from softcheck.probes import helpers, walk
from softcheck.probes.base import Setting, Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged import judged
from softcheck.probes.predicate import Shape
from softcheck.probes.space.contents import unlike_rows
from softcheck.variants.declaration import declaration_of
from softcheck.variants.registry import LoadedVariant, load

KERNELS = Path(__file__).parents[1] / "kernels" / "attentions.py"
WIDTHS = tuple(range(1, 50))


def right():
    return lambda x: torch.softmax(x, dim=-1)


def wrong_at_odd_widths():
    return lambda x: torch.softmax(x, dim=-1) * (1.0 + 0.25 * (x.shape[1] % 2))


def changes_its_input():
    def softmax(x):
        output = torch.softmax(x, dim=-1)
        if x.shape[1] % 7 == 3:
            x[0, 0] = 0.25
        return output

    return softmax


def works_in_place():
    return lambda x: x.copy_(torch.softmax(x, dim=-1))


def raises_at_one_width():
    def softmax(x):
        if x.shape[1] == 33:
            raise ValueError("33 columns")
        return torch.softmax(x, dim=-1)

    return softmax


def another_dtype_at_one_width():
    return lambda x: torch.softmax(x.float() if x.shape[1] == 20 else x, dim=-1)


def another_shape_at_one_width():
    return lambda x: torch.softmax(x, dim=-1)[: 1 if x.shape[1] == 21 else None]


def wrong_at_every_third_call():
    made = SimpleNamespace(calls=0)

    def softmax(x):
        made.calls += 1
        return torch.softmax(x, dim=-1) * (1.25 if made.calls % 3 == 0 else 1.0)

    return softmax


def returns_one_buffer():
    kept = SimpleNamespace(buffer=None)

    def softmax(x):
        if kept.buffer is None:
            kept.buffer = torch.zeros(1 << 16, dtype=x.dtype, device=x.device)
        output = kept.buffer[: x.numel()].view(x.shape)
        return output.copy_(torch.softmax(x, dim=-1))

    return softmax


def leaves_a_tail():
    def softmax(x):
        output = torch.empty_like(x)
        output[:, :40] = torch.softmax(x, dim=-1)[:, :40]
        return output

    return softmax


def sets_the_default_dtype():
    def softmax(x):
        if x.shape[1] == 40:
            torch.set_default_dtype(torch.float64)
        return torch.softmax(x, dim=-1)

    return softmax


BROKEN = {
    wrong_at_odd_widths: {FindingKind.ULP_EXCEEDS_BOUND, FindingKind.SUM_VIOLATION},
    changes_its_input: {FindingKind.INPUT_MODIFIED},
    works_in_place: {FindingKind.INPUT_MODIFIED},
    raises_at_one_width: {FindingKind.RAISED},
    another_dtype_at_one_width: {FindingKind.WRONG_DTYPE},
    another_shape_at_one_width: {FindingKind.WRONG_SHAPE},
    wrong_at_every_third_call: {FindingKind.SUM_VIOLATION},
    leaves_a_tail: {FindingKind.UNWRITTEN_OUTPUT},
    sets_the_default_dtype: {FindingKind.STATE_CHANGED},
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return torch.device(request.param)


def subject_of(function, device, dtype="float16"):
    declaration = declaration_of(function)
    return Subject(
        LoadedVariant("planted", function, declaration),
        Setting(declaration=declaration, dtype=dtype, backend="cuda"),
        device,
    )


def swept(make, device, dtype="float16"):
    """The outcome of a function of its own, since some count their calls."""
    subject = subject_of(make(), device, dtype)
    made = walk.Walk(subject, lambda p: [unlike_rows(4, p.shape.columns, FORMATS[dtype], 0)], 0)
    return made.of(walk.Stop(Shape(4, n), "needed") for n in WIDTHS)


def shapes(*widths):
    return tuple((4, n) for n in widths)


@pytest.mark.parametrize("planted", BROKEN)
def test_every_promise_that_calls_break_is_shown(planted, device):
    found = swept(planted, device)
    assert found.tried == shapes(*WIDTHS)
    assert found.failing.keys() >= BROKEN[planted]


@pytest.mark.parametrize("planted", [right, returns_one_buffer], ids=lambda planted: planted.__name__)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_right_kernel_is_left_alone_even_where_calls_write_to_one_buffer(planted, dtype, device):
    outcome = swept(planted, device, dtype)
    assert (outcome.violations, outcome.tried, outcome.fatal) == ((), shapes(*WIDTHS), False)


def test_no_call_is_made_after_one_whose_state_could_not_be_put_back(device, monkeypatch):
    stop = threading.Event()

    def waits():
        stop.wait()

    # What these calls leave behind ends with the test.
    monkeypatch.setattr(state.Snapshot, "is_any_lost", False)

    def leaves_a_thread():
        def softmax(x):
            if x.shape[1] == 45:
                threading.Thread(target=waits, daemon=True).start()
            assert x.shape[1] <= 45
            return torch.softmax(x, dim=-1)

        return softmax

    try:
        found = swept(leaves_a_thread, device)
    finally:
        stop.set()
    assert found.failing == {FindingKind.STATE_CHANGED: shapes(45)}
    assert found.fatal
    assert found.tried == shapes(*range(1, 46))


@pytest.mark.parametrize("width", [1024, 4096, 20000])
@pytest.mark.parametrize("wrong", [False, True])
def test_large_outputs_are_looked_at_where_they_are_and_small_ones_on_the_host(width, wrong, device):
    subject = subject_of(lambda x: torch.softmax(x, dim=-1) * (1.25 if wrong else 1.0), device)
    kinds = {each.kind for each in judged(subject, unlike_rows(4, width, FORMATS["float16"], 1)).violations}
    assert FindingKind.SUM_VIOLATION in kinds if wrong else kinds == set()


@pytest.mark.parametrize("width", [1, 33, 45])
def test_the_call_that_lost_the_device_is_known(width, monkeypatch):
    """A stand-in for a device that a call has ruined, whose every request raises an error."""
    is_lost = []

    def complain(_device):
        if is_lost:
            raise RuntimeError("an illegal memory access was encountered")

    def softmax(x):
        is_lost.extend([True] * (x.shape[1] == width))
        return torch.softmax(x, dim=-1)

    monkeypatch.setattr(call, "synchronize", complain)
    outcome = swept(lambda: softmax, torch.device("cpu"))
    assert (outcome.failing, outcome.tried) == ({FindingKind.CRASH: shapes(width)}, shapes(*range(1, width + 1)))
    assert outcome.fatal
    [crash] = outcome.violations
    assert "illegal memory access" in crash.message


@pytest.mark.parametrize(
    ("name", "least", "most"), [("answers_beyond_all_values", 0, 4), ("wrong_in_the_last_head", 63, 64)]
)
def test_of_many_wrong_heads_few_are_judged_and_a_single_one_is_found_wherever_it_is(monkeypatch, name, least, most):
    fmt, columns = FORMATS["float32"], 9
    monkeypatch.setattr(helpers, "_MOST_NUMBERS", 4 * columns * 16)
    variant = load(f"{KERNELS}:{name}")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    found = judged(subject, ordinary_rows(64, columns, fmt, 0)).violations
    wrong = next(v for v in found if v.kind is FindingKind.ULP_EXCEEDS_BOUND)
    assert least <= wrong.row < most
    assert wrong.count <= 4 * columns * 16
