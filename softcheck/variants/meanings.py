"""The meanings that a function's parameters have to an operation by their names, such as a scale. Imports no torch."""

import inspect
import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

from softcheck.operations.operation import Operation, Parameter, value_in_words
from softcheck.operations.registry import operation as operation_of

LOGIT_SCALE = (
    "sm_scale softmax_scale logit_scale logits_scale logit_scaling logits_scaling logit_scale_factor logits_scale_factor logit_multiplier "
    "logits_multiplier logit_scale_multiplier"
)
"""Names of a factor of the logits, and of nothing else."""
SCALE = f"scale alpha scaling factor {LOGIT_SCALE}"
TEMPERATURE = "temperature temp tau"
_HIDDEN = "hidden hidden_states hidden_state last_hidden_state embeddings embedding features activations"
_HEADS = "head lm_head lm_head_weight head_weight lin_weight linear_weight vocab_weight classifier unembedding"
_WEIGHTS = "weight weights class_weight class_weights ce_weight"


class Meaning(NamedTuple):
    """The meaning of a function's parameters of some names."""

    parameter: str
    """The operation's parameter."""
    text: str
    """The name in a call of what the function gets where that has another than its usual value."""
    names: str
    telling: float | str
    """A value at which the parameter does something."""
    is_implied: bool = True
    """True if a function that can't be called without it is judged with the telling value where none is declared."""
    kind: Literal["number", "inverse", "integer", "word", "flag", "operand"] = "number"
    """The meaning of a default: the parameter itself, 1 over it, or what a flag switches on; none is read of an operand."""

    def is_of(self, name: str) -> bool:
        """True if a function's parameter of a name may have this meaning."""
        return name.lower().rstrip("_") in self.names.split()


class Untried(NamedTuple):
    """A way to have a function's parameter judged that does nothing in its calls: a value that is declared, or a call."""

    option: str
    """The option of a report."""
    call: str = ""
    """The call; empty where a value is declared."""


PARAMETERS = (
    Meaning("scale", "scale", SCALE, 0.5),
    Meaning("scale", "temperature", TEMPERATURE, 0.5, kind="inverse"),
    Meaning("ignore_index", "ignore_index", "ignore_index ignored_index", -100.0, kind="integer"),
    Meaning("label_smoothing", "label_smoothing", "label_smoothing smoothing", 0.1),
    Meaning("weight", "weight", _WEIGHTS, 1.0, kind="operand"),
    Meaning("head", "head", _HEADS, 1.0, kind="operand"),
    Meaning(
        "z_loss",
        "z_loss",
        "z_loss lse_square_scale z_loss_coefficient z_loss_weight z_loss_scale z_loss_multiplier",
        1e-4,
    ),
    Meaning(
        "softcap",
        "softcap",
        "softcap soft_cap logits_soft_cap logit_cap logit_softcap softcapping final_logit_softcapping",
        30.0,
    ),
    Meaning("reduction", "reduction", "reduction", "mean", is_implied=False, kind="word"),
    Meaning("causal", "True", "causal is_causal", "top-left", is_implied=False, kind="flag"),
    Meaning("window", "window", "window window_size sliding_window", 7.0, is_implied=False, kind="integer"),
    Meaning("sink", "sinks", "sink sinks s_aux", 1.0, kind="operand"),
    Meaning("groups", "True", "enable_gqa", 2.0, is_implied=False, kind="operand"),
    Meaning("masked", "keep", "mask attn_mask attention_mask", 1.0, kind="operand"),
    Meaning("masked", "mask", "keep valid valid_mask", 1.0, kind="operand"),
    Meaning("biased", "bias", "mask attn_mask attention_mask bias attn_bias additive_mask", 1.0, kind="operand"),
)
"""Parameters of operations and the names that functions have for them."""
OTHERWISE = frozenset({"alpha", "factor"})
"""Names that may mean something else than a scale: at 1 they do nothing."""


def hidden_and_head(names: Sequence[str]) -> tuple[str, str] | None:
    """Returns the parameters of a loss that are hidden states and the head that makes logits of them; None where there are none.

    What is called a weight beside hidden states is such a head, [classes, hidden], and no class weights. So is one between an input and
    the target, as in ``(input, weight, target)``: class weights stand behind the target.
    """
    plain = {name.lower().strip("_"): name for name in names}

    def first_of(words: str) -> str | None:
        return next((plain[one] for one in words.split() if one in plain), None)

    hidden, head, target = first_of(_HIDDEN), first_of(f"{_HEADS} {_WEIGHTS}"), first_of("target targets label labels")
    if hidden is None and head is not None and target is not None and names.index(head) < names.index(target):
        hidden = first_of("input inp x h")
    return None if hidden is None or head is None else (hidden, head)


def implied(names: Collection[str], operation: Operation, declared: Collection[str]) -> dict[str, Parameter]:
    """Returns values of the parameters that names in a call are for and nobody declares, at which they do something.

    A function that takes a mask is judged with one then, and one that takes a scale with another than 1.
    """
    usual = operation.parameters
    found: dict[str, Parameter] = {}
    for one in PARAMETERS:
        is_open = one.is_implied and one.parameter in usual and one.parameter not in declared
        # A bias beside a declared mask is a mask that is added, and attention has a scale of its own.
        is_told = (one.parameter == "biased" and "masked" in declared) or (
            one.parameter == "scale" and usual.get("scale", 1.0) != 1
        )
        if is_open and not is_told and one.text in names:
            found[one.parameter] = one.telling
    return found


def untried(
    parameters: Sequence[inspect.Parameter],
    call: str,
    names: frozenset[str],
    operation: Operation,
    chosen: Callable[[Sequence[str]], Sequence[str]],
) -> dict[str, tuple[Untried, ...]]:
    """Returns a function's parameters that do nothing in a call, each with the ways to have it judged.

    ``chosen`` picks among calls in which an operand has one meaning or another. Parameters of no known meaning for the
    operation are left out.
    """
    given, usual = operation.parameters, operation_of(operation.name).parameters
    idle = {one.parameter for one in PARAMETERS if given.get(one.parameter) == usual.get(one.parameter, math.nan)}
    idle -= {"scale"} if given.get("scale", 1.0) != 1 else set()
    operands = {} if operation.arguments is None else operation.arguments.words
    found: dict[str, tuple[Untried, ...]] = {}
    head = hidden_and_head([each.name for each in parameters]) if "head" in names else None
    for parameter in parameters:
        if head is not None and parameter.name == head[1]:
            continue
        name = parameter.name.lower().rstrip("_")
        meant = [one for one in PARAMETERS if one.is_of(name) and one.parameter in given]
        texts = next((texts for words, texts in operands.items() if name in words.split()), ())
        is_given = any(one.text in names for one in meant) or bool(names & {*texts})
        choices = [
            Untried(f"--declare {one.parameter}={value_in_words(one.telling)}")
            for one in meant
            if one.parameter in idle and not is_given
        ]
        if not meant and texts and not is_given and call.endswith(")"):
            calls = [f"{call[:-1]}, {parameter.name}={text})" for text in texts if text != "None"]
            choices = [Untried(f"--call '{each}'", each) for each in chosen(calls)]
        if choices:
            found[parameter.name] = tuple(choices)
    return found
