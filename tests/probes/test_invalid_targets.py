"""Targets that are no columns: a loss that reads elsewhere is found, and one that raises, gives NaN or a number is told apart."""

import pytest
import torch
from probe_helpers import conclusion as concluded
from probe_helpers import kinds

import softcheck
from softcheck.probes.invalid_targets import PROPERTY

LOSS = torch.nn.functional.cross_entropy


def loss(function=None, **parameters):
    call = "f(x, target, weight)" if "weight" in parameters else "f(x, target)"
    marked = softcheck.variant(operation="cross_entropy", call=call, parameters=parameters)
    return marked if function is None else marked(function)


def conclusion(function):
    return concluded("invalid_targets", function)


def taking(x, target, missing):
    """The losses, and those of targets that are no columns by ``missing``, of flat places in all of the storage."""
    every = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    is_column = (target >= 0) & (target < x.shape[1])
    place = x.storage_offset() + torch.arange(len(x)) * x.stride(0) + target * x.stride(1)
    at_target = torch.where(
        is_column, x.gather(1, target.clamp(0, x.shape[1] - 1)[:, None])[:, 0], missing(every, place)
    )
    return torch.logsumexp(x, -1) - at_target


@loss
def raises(x, target):
    return LOSS(x, target, reduction="none")


@loss
def gives_nan(x, target):
    return taking(x, target, lambda every, _: torch.full((), float("nan"), dtype=every.dtype))


@loss
def counts_from_the_end(x, target):
    return LOSS(x, target % x.shape[1], reduction="none")


@loss
def reads_elsewhere(x, target):
    return taking(x, target, lambda every, place: every[place])


@loss
def writes_elsewhere(x, target):
    every = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    place = x.storage_offset() + torch.arange(len(x)) * x.stride(0) + target * x.stride(1)
    every[place] = every[place] + (1.0 - ((target >= 0) & (target < x.shape[1])).to(x.dtype))
    return LOSS(x, target.clamp(0, x.shape[1] - 1), reduction="none")


@loss
def writes_its_gradient_elsewhere(x, target):
    grad = torch.empty_like(x).copy_(torch.softmax(x, -1))
    every = torch.empty(0, dtype=x.dtype).set_(grad.untyped_storage())
    every[grad.storage_offset() + torch.arange(len(x)) * x.shape[1] + target] -= 1
    return LOSS(x, target.clamp(0, x.shape[1] - 1), reduction="none")


@loss(weight=1)
def reads_weights_elsewhere(x, target, weight):
    every = weight.as_strided((weight.untyped_storage().nbytes() // weight.element_size(),), (1,), 0)
    missing = taking(x, target, lambda every, _: torch.full((), 0.0, dtype=every.dtype))
    return missing * every[(weight.storage_offset() + target).clamp(0, len(every) - 1)]


@pytest.mark.parametrize(
    ("function", "found", "shows"),
    [
        (raises, set(), True),
        (gives_nan, set(), True),
        (counts_from_the_end, set(), False),
        (reads_elsewhere, set(), False),
        (reads_weights_elsewhere, set(), False),
        (writes_elsewhere, {"out_of_bounds_write"}, False),
        (writes_its_gradient_elsewhere, {"out_of_bounds_write"}, False),
    ],
)
def test_what_becomes_of_a_target_that_is_no_column(function, found, shows):
    seen = conclusion(function)
    assert kinds(seen) == found
    assert seen.properties == {PROPERTY: shows}
    assert seen.trials == 2
    reads = function in (reads_elsewhere, reads_weights_elsewhere)
    assert ["--declare invalid_target=nan" in note for note in seen.notes] == [True] * reads
    assert [shown.label for shown in seen.findings] == ["before-the-first-row"] * len(found)


def test_an_assertion_of_the_device_shows_a_target_and_an_illegal_access_is_found():
    """The errors are those that CUDA gives after each, which ends the process's use of the device."""
    from softcheck.calling.call import CallOutcome
    from softcheck.contract import FindingKind, Violation
    from softcheck.probes.invalid_targets import _without_output

    def ended(message):
        crash = Violation(FindingKind.CRASH, f"AcceleratorError: CUDA error: {message}; expected an output")
        return _without_output(CallOutcome(None, (crash,), fatal=True), "with the target -1")

    asserted = ended("device-side assert triggered")
    assert (asserted.violations, asserted.properties, asserted.fatal) == ((), {PROPERTY: True}, True)
    illegal = ended("an illegal memory access was encountered")
    assert [violation.kind for violation in illegal.violations] == [FindingKind.CRASH]


@pytest.mark.parametrize(
    "parameters", [{"invalid_target": "nan"}, {"reduction": "mean"}, {"ignore_index": -1, "invalid_target": "zero"}]
)
def test_what_is_declared_is_not_tried(parameters):
    assert conclusion(loss(lambda x, target: x, **parameters)).trials == 0


def test_the_target_that_is_ignored_is_no_wrong_one():
    assert conclusion(loss(lambda x, target: LOSS(x, target, reduction="none"), ignore_index=-1)).trials == 1


def test_other_operations_have_no_targets():
    assert conclusion(softcheck.variant(operation="softmax")(lambda x: torch.softmax(x, -1))).trials == 0
