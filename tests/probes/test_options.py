"""Options that a report's calls leave at their defaults are given, and judged where their names tell what they mean."""

from pathlib import Path

import pytest
import torch
from probe_helpers import made_in

from softcheck.calling.call import place
from softcheck.cases.case import PACKED
from softcheck.probes import meetings
from softcheck.probes.base import Setting, Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.probes.space.attempts import Attempts
from softcheck.probes.space.plan import Plan
from softcheck.probes.space.way import Way
from softcheck.variants.registry import load

FUNCTIONS = Path(__file__).with_name("functions_with_options.py")
LOSS, ATTENTION = "@operation=cross_entropy", "@operation=attention"


def subject_of(function, dtype="float32"):
    variant = load(f"{FUNCTIONS}:{function}")
    setting = Setting(declaration=variant.declaration, dtype=dtype, backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    # The first call finds how the function is called.
    variant.function(place(ordinary_rows(3, 33, setting.fmt), setting.fmt, PACKED, subject.device).view)
    return subject


def found_in(function, way):
    """Returns the words of a report on a way, the smallest meeting that is wrong in it, and remarks."""
    space = meetings._space_of(subject_of(function))
    attempts = Attempts(space, 0)
    outcome = meetings._Part(space, attempts).of([Way.parse(way, space.axes)])
    return outcome.violations, outcome.ways, attempts.notes


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("function", "tried"),
    [
        (f"loss{LOSS}", {"ignore_index", "label_smoothing", "reduction", "scale", "softcap"}),
        ("softmax", {"scale", "temperature", "call"}),
        (f"attention{ATTENTION}", {"masked", "biased", "causal", "scale", "groups"}),
    ],
)
def test_right_functions_are_left_alone(function, tried, dtype):
    subject = subject_of(function, dtype)
    assert made_in(subject, dtype, tried) == {}
    axes = {axis.name for axis in meetings._space_of(subject).axes if not axis.is_promised}
    assert axes - {"dims", "queries", "head_dim", "shared mask"} == tried


@pytest.mark.parametrize(
    ("function", "way", "kind", "option"),
    [
        (
            f"class_zero_is_never_ignored{LOSS}",
            "columns=2,ignore_index=0",
            "ulp_exceeds_bound",
            "--declare ignore_index=0",
        ),
        (
            f"smoothed_by_one_class_less{LOSS}",
            "label_smoothing=0.1",
            "ulp_exceeds_bound",
            "--declare label_smoothing=0.1",
        ),
        (
            f"mean_of_all_rows{LOSS}",
            "columns=1120,reduction=mean",
            "ulp_exceeds_bound",
            "--declare reduction=mean",
        ),
        (
            f"gradient_without_the_smoothing{LOSS}",
            "label_smoothing=0.1,gradient=varying",
            "wrong_gradient",
            "--declare label_smoothing=0.1",
        ),
        (f"target_without_the_scale{LOSS}", "scale=0.5", "ulp_exceeds_bound", "--declare scale=0.5"),
        ("temperature_kept_from_zero", "temperature=0.5", "ulp_exceeds_bound", "--declare scale=0.5"),
        (
            "mask_of_whole_tiles",
            "contents=hidden columns,call=f(x; mask:mask)",
            "ulp_exceeds_bound",
            "--call 'f(x, mask=mask)'",
        ),
        (f"causal_one_key_late{ATTENTION}", "causal=top-left", "ulp_exceeds_bound", "--declare causal=top-left"),
        (f"heads_dealt_in_turn{ATTENTION}", "rows=6,groups=2", "ulp_exceeds_bound", "--declare groups=2"),
        (
            f"tiles_of_the_first_batch{ATTENTION}",
            "rows=6,contents=a short first row,masked=1",
            "ulp_exceeds_bound",
            "--declare masked=1",
        ),
        (
            "few_hidden_columns_are_listed",
            "rows=17,contents=a short first row,call=f(x; keep:keep)",
            "nan_mismatch",
            "--call 'f(x, keep=keep)'",
        ),
        (
            "mask_written_into_the_kept_one",
            "causal=top-left,before=a mask and a causal flag",
            "ulp_exceeds_bound",
            "--declare causal=top-left",
        ),
    ],
)
def test_a_fault_behind_an_option_is_found_with_what_judges_it_everywhere(function, way, kind, option):
    violations, ways, _ = found_in(function, way)
    assert kind in {str(violation.kind) for violation in violations}, (violations, ways)
    assert option in violations[0].message
    assert {part.partition("=")[0] for part in ways[0].split(",")} <= {
        part.partition("=")[0] for part in way.split(",")
    }


@pytest.mark.parametrize(
    ("function", "way", "words"),
    [
        (
            f"twice_the_squared_logarithm{LOSS}",
            "z_loss=0.5",
            "none that the name promises; --declare z_loss=0.5 judges",
        ),
        (f"scale_of_the_loss{LOSS}", "scale=0.5", "none that the name promises; --declare scale=0.5 judges"),
        (f"causal_refused{ATTENTION}", "causal=top-left", ""),
    ],
)
def test_what_an_option_may_mean_otherwise_or_refuses_is_no_finding(function, way, words):
    violations, _, notes = found_in(function, way)
    assert violations == ()
    assert not words or any(words in note for note in notes)


def test_what_is_given_is_no_option():
    axes = {axis.name for axis in meetings._space_of(subject_of("softmax(x)")).axes}
    assert axes.isdisjoint({"scale", "temperature", "call", "causal"})


def test_what_is_wrong_without_an_option_too_is_left_to_others():
    assert found_in("wrong_by_itself", "scale=0.5")[0] == ()


@pytest.mark.parametrize("function", [f"loss{LOSS}", "softmax", f"attention{ATTENTION}"])
def test_the_plan_has_every_value_of_an_option(function):
    space = meetings._space_of(subject_of(function))
    budget = meetings.BUDGETS["normal"]
    ways = Plan(space.axes, space.excluded, [0]).ways(budget.slow if "attention" in function else budget.calls)
    for axis in space.axes:
        assert {way.get(axis.name, axis.plain) for way in ways} == {*axis.values}, axis.name
