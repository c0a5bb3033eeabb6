"""Choice of the device judge's arithmetic: by rates, by name, by width."""

import device_child
import double_float_child
import pytest
import torch
from msgspec.structs import replace

from oracles.formats import FLOAT16, FLOAT32
from softcheck.errors import UsageError
from softcheck.judge.device import dispatch, rates
from softcheck.judge.device.constants import Constants
from softcheck.judge.device.judge import judge_on_device
from softcheck.judge.judge import STANDARD
from softcheck.judge.merge import merge
from softcheck.operations import bounds

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")


def constants(columns, fmt=FLOAT16):
    return Constants(fmt, bounds.model(STANDARD, fmt), columns)


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1 / 2, "float64"), (0.3, "float64"), (1 / 32, "double-float32"), (1 / 64, "double-float32")],
)
def test_the_faster_by_rates_is_taken(monkeypatch, ratio, expected):
    monkeypatch.setattr(rates, "rate_ratio", lambda index: {0: ratio}[index])
    assert dispatch.arithmetic_of(constants(1024), GPU) == expected
    assert dispatch.arithmetic_of(constants(1024), CPU) == "float64"


def test_a_name_overrules_rates_and_the_argument_overrules_the_variable(monkeypatch):
    monkeypatch.setattr(rates, "rate_ratio", lambda _: 1 / 2)
    monkeypatch.setenv(dispatch.VARIABLE, "double-float32")
    assert dispatch.arithmetic_of(constants(1024), GPU) == "double-float32"
    assert dispatch.arithmetic_of(constants(1024), GPU, "float64") == "float64"
    monkeypatch.setenv(dispatch.VARIABLE, "")
    assert dispatch.arithmetic_of(constants(1024), GPU) == "float64"


def test_unknown_names_are_refused(monkeypatch):
    monkeypatch.setenv(dispatch.VARIABLE, "float32")
    with pytest.raises(UsageError, match="'float32', expected one of: float64, double-float32"):
        dispatch.arithmetic_of(constants(1024), CPU)


@pytest.mark.parametrize("columns", [2, 16385])
def test_pairs_and_rows_too_wide_for_a_scan_are_judged_in_float64(monkeypatch, columns):
    monkeypatch.setenv(dispatch.VARIABLE, "double-float32")
    assert dispatch.arithmetic_of(constants(columns, FLOAT32), CPU) == "float64"


def test_what_the_numpy_judge_judges_says_so():
    empty = torch.zeros((3, 0), dtype=torch.float16)
    measured = judge_on_device(empty, empty, FLOAT16, judged_in="double-float32")
    assert measured.judged_in == "numpy"
    parts = [replace(measured, judged_in=name) for name in ("float64", "float64", "double-float32", "float64")]
    assert merge(parts[:2]).judged_in == "float64"
    assert merge(parts).judged_in == "float64 and double-float32"


@pytest.mark.gpu
@pytest.mark.parametrize("columns", [1, 5, 64, 1000, 2048, 4096, 8192, 16384])
def test_both_arithmetics_agree_with_numpy_where_they_are_compiled(columns):
    with device_child.pool(interpret=False) as pool:
        found = pool.submit(double_float_child.on_gpu, columns).result()
    assert [key for key, names in found.items() if names] == []


@pytest.mark.gpu
def test_rates_of_a_real_gpu_are_plausible_and_repeat():
    # Other tests may use the GPU at the same time; what depends on the ratio is on which side of 1/8 it lies.
    first = rates.rate_ratio.__wrapped__(0)
    second = rates.rate_ratio.__wrapped__(0)
    assert 1 / 100 < first < 0.9
    assert second == pytest.approx(first, rel=1.0)
