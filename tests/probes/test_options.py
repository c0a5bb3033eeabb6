"""Options that a report's calls leave at their defaults are given, and judged where their names tell what they mean."""

from pathlib import Path

import pytest
import torch
from probe_helpers import kinds

from softcheck.calling.call import place
from softcheck.cases.case import PACKED
from softcheck.probes import registry
from softcheck.probes.base import Setting, Subject
from softcheck.probes.helpers import ordinary_rows
from softcheck.variants.registry import load

FUNCTIONS = Path(__file__).with_name("functions_with_options.py")
LOSS, ATTENTION = "@operation=cross_entropy", "@operation=attention"


def concluded(function, dtype="float32"):
    """The outcome of each trial by its label, and the conclusion."""
    variant = load(f"{FUNCTIONS}:{function}")
    setting = Setting(declaration=variant.declaration, dtype=dtype, backend="interpreter")
    subject = Subject(variant, setting, torch.device("cpu"))
    # The first call finds how the function is called.
    variant.function(place(ordinary_rows(3, 33, setting.fmt), setting.fmt, PACKED, subject.device).view)
    probe = registry.load("options")
    done = [(trial, probe.run(subject, trial)) for trial in probe.trials(setting)]
    return {trial.label: outcome for trial, outcome in done}, probe.conclude(done)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("function", "tried"),
    [
        (f"loss{LOSS}", {"ignore_index", "label_smoothing", "reduction", "scale", "softcap"}),
        ("softmax", {"scale", "temperature", "mask"}),
        (f"attention{ATTENTION}", {"masked", "biased", "causal", "scale", "groups"}),
    ],
)
def test_right_functions_are_left_alone(function, tried, dtype):
    outcomes, found = concluded(function, dtype)
    assert found.findings == ()
    assert {label for label, outcome in outcomes.items() if outcome.skipped is None} == tried


@pytest.mark.parametrize(
    ("function", "label", "kind", "option"),
    [
        (f"class_zero_is_never_ignored{LOSS}", "ignore_index", "ulp_exceeds_bound", "--declare ignore_index=0"),
        (f"smoothed_by_one_class_less{LOSS}", "label_smoothing", "ulp_exceeds_bound", "--declare label_smoothing=0.1"),
        (f"mean_of_all_rows{LOSS}", "reduction", "ulp_exceeds_bound", "--declare reduction=mean"),
        (f"gradient_without_the_smoothing{LOSS}", "label_smoothing", "wrong_gradient", "--declare label_smoothing=0.1"),
        (
            f"target_without_the_scale{LOSS}",
            "scale",
            "ulp_exceeds_bound",
            "scale=0.5 given as logits_scale_factor, which nobody declares (--declare scale=0.5",
        ),
        ("temperature_kept_from_zero", "temperature", "ulp_exceeds_bound", "--call 'f(x, temperature=temperature)'"),
        ("mask_of_whole_tiles", "mask", "masked_not_zero", "called as f(x, mask=mask)"),
        (f"causal_one_key_late{ATTENTION}", "causal", "ulp_exceeds_bound", "--declare causal=top-left"),
        (f"heads_dealt_in_turn{ATTENTION}", "groups", "ulp_exceeds_bound", "--declare groups=2"),
        (f"tiles_of_the_first_batch{ATTENTION}", "masked", "ulp_exceeds_bound", "--declare masked=1"),
        ("few_hidden_columns_are_listed", "mask", "nan_mismatch", "called as f(x, keep=keep)"),
        (
            "mask_written_into_the_kept_one",
            "beside-causal",
            "ulp_exceeds_bound",
            "causal=top-left after a call as f(x, keep",
        ),
    ],
)
def test_a_fault_behind_an_option_is_found_with_what_judges_it_everywhere(function, label, kind, option):
    outcomes, found = concluded(function)
    assert {name for name, outcome in outcomes.items() if outcome.violations} == {label}
    assert kind in kinds(found)
    assert option in found.findings[0].violation.message


@pytest.mark.parametrize(
    ("function", "label", "words"),
    [
        (f"twice_the_squared_logarithm{LOSS}", "z_loss", "none that the name promises; --declare z_loss=0.0001 judges"),
        (f"scale_of_the_loss{LOSS}", "scale", "none that the name promises; --declare scale=0.5 judges"),
        (f"causal_refused{ATTENTION}", "causal", "refused, and nothing promises it"),
        ("softmax@scale=0.5", "scale", "takes no option"),
        ("softmax(x)", "scale", "takes no option"),
        ("softmax", "causal", "takes no option"),
    ],
)
def test_what_an_option_may_mean_otherwise_or_refuses_is_said_and_is_no_finding(function, label, words):
    outcomes, found = concluded(function)
    assert found.findings == ()
    assert words in outcomes[label].skipped


def test_what_is_wrong_without_an_option_too_is_left_to_others():
    assert concluded("wrong_by_itself")[1].findings == ()
