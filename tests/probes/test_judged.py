"""Calls that are judged in groups break the same promises as calls that are judged one by one."""

import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from oracles.formats import FORMATS
from softcheck.calling import call, state
from softcheck.contract import FindingKind
from softcheck.probes import helpers, judged, walk
from softcheck.probes.base import Setting, Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.judged import MOST, Calls
from softcheck.probes.predicate import Shape
from softcheck.probes.space.contents import unlike_rows
from softcheck.variants.declaration import declaration_of
from softcheck.variants.registry import LoadedVariant, load

KERNELS = Path(__file__).parents[1] / "kernels" / "attentions.py"
WIDTHS = tuple(range(1, 50))
"""Of a whole group and a part of another."""


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


def swept(make, device, dtype="float16", *, most=MOST):
    """The outcome with groups of up to ``most``, of a function of its own, since some count their calls."""
    subject = subject_of(make(), device, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "MOST", most)
        made = walk.Walk(subject, lambda p: [unlike_rows(4, p.shape.columns, FORMATS[dtype], 0)], 0)
        return made.of(walk.Stop(Shape(4, n), "needed") for n in WIDTHS)


def shapes(*widths):
    return tuple((4, n) for n in widths)


@pytest.mark.parametrize(
    ("planted", "dtype"),
    # float64 is judged elsewhere on a GPU; that groups are taken apart as they should is the same code.
    [
        *(pytest.param(planted, "float16", id=f"float16-{planted.__name__}") for planted in BROKEN),
        *(pytest.param(planted, "float64", id=f"float64-{planted.__name__}") for planted in list(BROKEN)[:1]),
    ],
)
def test_a_group_breaks_the_promises_that_its_calls_break_one_by_one(planted, dtype, device):
    grouped, alone = (swept(planted, device, dtype, most=most) for most in (MOST, 1))
    assert grouped == alone
    assert grouped.tried == shapes(*WIDTHS)
    assert grouped.failing.keys() >= BROKEN[planted]


@pytest.mark.parametrize("planted", [right, returns_one_buffer], ids=lambda planted: planted.__name__)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_right_kernel_is_left_alone_in_a_group_even_where_calls_write_to_one_buffer(planted, dtype, device):
    outcome = swept(planted, device, dtype)
    assert (outcome.violations, outcome.tried, outcome.fatal) == ((), shapes(*WIDTHS), False)


def test_no_call_is_made_after_one_whose_state_could_not_be_put_back(device, monkeypatch):
    stop = threading.Event()

    def waits():
        stop.wait()

    # What these calls leave behind ends with the test.
    monkeypatch.setattr(state, "_lost", state._Lost())

    def leaves_a_thread():
        def softmax(x):
            if x.shape[1] == 45:
                threading.Thread(target=waits, daemon=True).start()
            assert x.shape[1] <= 45
            return torch.softmax(x, dim=-1)

        return softmax

    try:
        grouped, alone = (swept(leaves_a_thread, device, most=most) for most in (MOST, 1))
    finally:
        stop.set()
    assert (grouped.failing, grouped.tried, grouped.fatal) == (alone.failing, alone.tried, alone.fatal)
    assert grouped.failing == {FindingKind.STATE_CHANGED: shapes(45)}
    assert grouped.fatal
    assert grouped.tried == shapes(*range(1, 46))


@pytest.mark.parametrize(("columns", "calls"), [(5, MOST), (1 << 17, 4), (1 << 20, 1)])
def test_groups_are_of_so_many_calls_and_bytes(columns, calls):
    made = Calls(subject_of(right(), torch.device("cpu")), most=MOST)
    bits = np.zeros((4, columns), dtype=np.uint16)
    for _ in range(calls):
        assert not made.is_full
        made.make(bits)
    assert made.is_full
    assert len(made.settle()) == calls
    assert not made.is_full
    assert made.settle() == []


@pytest.mark.parametrize("width", [1024, 4096, 20000])
@pytest.mark.parametrize("wrong", [False, True])
def test_large_outputs_are_looked_at_where_they_are_and_small_ones_on_the_host(width, wrong, device):
    factor = 1.25 if wrong else 1.0
    calls = Calls(subject_of(lambda x: torch.softmax(x, dim=-1) * factor, device), most=4)
    for size in (1, 2):
        calls.make(unlike_rows(4, width, FORMATS["float16"], size), size)
    found = {size: {v.kind for v in one.violations} for size, one in calls.settle()}
    assert list(found) == [1, 2]
    assert all((FindingKind.SUM_VIOLATION in kinds) if wrong else kinds == set() for kinds in found.values())


class LostDevice:
    """A stand-in for a device that a call has ruined: no mark arrives, and every request to it raises an error.

    The error comes up only at the ``surfaces``-th next input, or else where the host waits.
    """

    def __init__(self, patch, surfaces):
        self.is_lost = False
        self.places = 0
        self.surfaces = surfaces
        place = call.place

        def place_if_usable(*arguments):
            self.places += self.is_lost
            if self.is_lost and self.places == self.surfaces:
                self.complain(arguments[-1])
            return place(*arguments)

        patch.setattr(judged, "_mark", lambda _: torch.tensor([not self.is_lost], dtype=torch.uint8))
        patch.setattr(judged, "place", place_if_usable)
        for module in (call, judged):
            patch.setattr(module, "synchronize", self.complain)

    def complain(self, _device):
        if self.is_lost:
            raise RuntimeError("an illegal memory access was encountered")

    def ruined_at(self, width, *, wrong_below=0):
        def make():
            def softmax(x):
                self.is_lost |= x.shape[1] == width
                return torch.softmax(x, dim=-1) * (1.25 if x.shape[1] < wrong_below else 1.0)

            return softmax

        return make


@pytest.mark.parametrize(("surfaces", "width"), [(None, 45), (1, 1), (1, 33), (2, 2), (2, 32), (9, 33), (9, 45)])
def test_the_first_call_whose_mark_did_not_arrive_is_the_one_that_crashed(surfaces, width, monkeypatch):
    device = LostDevice(monkeypatch, surfaces)
    outcome = swept(device.ruined_at(width), torch.device("cpu"))
    assert outcome.failing == {FindingKind.CRASH: shapes(width)}
    # The outputs of others of its group are lost with the device.
    assert outcome.tried == shapes(*range(1, MOST + 1 if width > MOST else 1), width)
    assert outcome.fatal
    [crash] = outcome.violations
    assert "illegal memory access" in crash.message


def test_one_by_one_the_call_that_crashed_is_known_at_once(monkeypatch):
    device = LostDevice(monkeypatch, None)
    outcome = swept(device.ruined_at(45), torch.device("cpu"), most=1)
    assert (outcome.failing, outcome.tried) == ({FindingKind.CRASH: shapes(45)}, shapes(*range(1, 46)))


def test_calls_whose_outputs_are_lost_with_the_device_do_not_count_as_tried(monkeypatch):
    device = LostDevice(monkeypatch, None)
    outcome = swept(device.ruined_at(45, wrong_below=40), torch.device("cpu"))
    assert outcome.failing[FindingKind.SUM_VIOLATION] == shapes(*range(1, 33))
    assert outcome.failing[FindingKind.CRASH] == shapes(45)
    assert outcome.tried == shapes(*range(1, 33), 45)


def test_an_error_of_the_probes_own_is_raised(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no room")

    made = Calls(subject_of(right(), torch.device("cpu")), most=MOST)
    made.make(ordinary_rows(2, 5, FORMATS["float16"]))
    monkeypatch.setattr(judged, "place", refuse)
    with pytest.raises(RuntimeError, match="no room"):
        made.make(ordinary_rows(2, 6, FORMATS["float16"]))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_making_a_call_waits_for_nothing(dtype):
    made = Calls(subject_of(right(), torch.device("cuda"), dtype), most=MOST)
    bits = ordinary_rows(4, 1000, FORMATS[dtype])
    made.make(bits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(MOST - 1):
            made.make(bits)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(found.violations == () for _, found in made.settle())


@pytest.mark.parametrize(
    ("name", "least", "most"), [("answers_beyond_all_values", 0, 4), ("wrong_in_the_last_head", 63, 64)]
)
def test_of_many_wrong_heads_few_are_judged_and_a_single_one_is_found_wherever_it_is(monkeypatch, name, least, most):
    fmt, columns = FORMATS["float32"], 9
    monkeypatch.setattr(helpers, "_MOST_NUMBERS", 4 * columns * 16)
    variant = load(f"{KERNELS}:{name}")
    setting = Setting(declaration=variant.declaration, dtype="float32", backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    found = judged.judged(subject, ordinary_rows(64, columns, fmt, 0)).violations
    wrong = next(v for v in found if v.kind is FindingKind.ULP_EXCEEDS_BOUND)
    assert least <= wrong.row < most
    assert wrong.count <= 4 * columns * 16
