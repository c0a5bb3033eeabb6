"""The meanings that a function's parameters, and their defaults, have to an operation by their names, such as a scale. Imports no torch."""

import ast
import inspect
import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from softcheck.errors import UsageError
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
_Z_LOSS = "z_loss lse_square_scale z_loss_coefficient z_loss_weight z_loss_scale z_loss_multiplier"
_SOFTCAP = "softcap soft_cap logits_soft_cap logit_cap logit_softcap softcapping final_logit_softcapping"
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
        return _plain(name) in self.names.split()


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
    Meaning("z_loss", "z_loss", _Z_LOSS, 1e-4),
    Meaning("softcap", "softcap", _SOFTCAP, 30.0),
    Meaning("base", "base", "base log_base", 2.0, is_implied=False),
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
_NEUTRAL: Mapping[str, Parameter] = {"scale": 1.0, "causal": "", "reduction": "none"}
"""Values at which parameters do nothing, where that is another than 0."""


def _plain(name: str) -> str:
    """The name of a parameter as the tables have it."""
    return name.lower().rstrip("_")


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
    """Returns values, at which they do something, of parameters that names in a call are for and nobody declares."""
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
) -> dict[str, tuple[Untried, ...]]:
    """Returns a function's parameters of a known meaning that do nothing in a call, each with the ways to have it judged."""
    given, usual = operation.parameters, operation_of(operation.name).parameters
    idle = {one.parameter for one in PARAMETERS if given.get(one.parameter) == usual.get(one.parameter, math.nan)}
    idle -= {"scale"} if given.get("scale", 1.0) != 1 else set()
    operands = {} if operation.arguments is None else operation.arguments.words
    found: dict[str, tuple[Untried, ...]] = {}
    head = hidden_and_head([each.name for each in parameters]) if "head" in names else None
    for parameter in parameters:
        if head is not None and parameter.name == head[1]:
            continue
        name = _plain(parameter.name)
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
            choices = [Untried(f"--call '{each}'", each) for each in calls]
        if choices:
            found[parameter.name] = tuple(choices)
    return found


def of_defaults(
    parameters: Sequence[inspect.Parameter], operation: str, declared: Mapping[str, Parameter]
) -> tuple[dict[str, Parameter], tuple[str, ...]]:
    """Returns the values that defaults of parameters which calls leave out give an operation's parameters that nobody declares.

    Sentences on these values come with them, and on defaults that are none of the operation's values.
    """
    usual = operation_of(operation).parameters
    values: dict[str, Parameter] = {}
    remarks: list[str] = []
    for meaning, each in _meant(parameters):
        name, shown = meaning.parameter, f"{each.name}={each.default!r}"
        if name in declared:
            continue
        try:
            value = _read(meaning, each)
            if value in (None, values.get(name, usual.get(name, _NEUTRAL.get(name, 0.0)))):
                continue
            _check(operation, name, value, {**declared, **values})
        except UsageError as error:
            remarks.append(
                f"{shown}, its default, is no value that {operation} is judged with ({error}), and stays as it is, so that right "
                "answers may seem wrong; give another one by --declare, --call or a wrapper"
            )
        else:
            values[name] = value
            other = "" if value == each.default else f" ({name}={value_in_words(value)})"
            remarks.append(f"judged with {shown}{other}, its default; --declare {name}=VALUE judges another value")
    return values, tuple(remarks)


def passed(parameters: Sequence[inspect.Parameter], operation: Operation) -> dict[str, str]:
    """Returns the arguments that parameters with a default need for a call to compute an operation, by name: where the default is another value."""
    found: dict[str, str] = {}
    known = [(meaning, each) for meaning, each in _meant(parameters) if meaning.parameter in operation.parameters]
    for name, group in groupby(known, key=lambda pair: pair[0].parameter):
        value, own = operation.parameters[name], _own(operation, name)
        defaults = [(meaning, each, _if_judged(meaning, each, operation)) for meaning, each in group]
        if value != own and any(default == value for _, _, default in defaults):
            continue
        needed = [
            (meaning, each) for meaning, each, default in defaults if (own if default is None else default) != value
        ]
        if len(needed) > 1 and all(default in (None, own) for _, _, default in defaults):
            # A scale beside a temperature: one of them is enough, and both would count twice.
            del needed[1:]
        for meaning, each in needed:
            found[each.name] = "False" if meaning.kind == "flag" and not value else meaning.text
    return found


def with_one_given(parameters: Sequence[inspect.Parameter], operation: Operation, call: str) -> dict[str, str]:
    """Returns calls that give one number more than a call does, by the number's parameter, whose default is no value."""
    return {
        each.name: f"{call[:-1]}, {each.name}={meaning.text})"
        for meaning, each in _meant(left_out(parameters, call))
        if meaning.kind in ("number", "inverse") and meaning.parameter in operation.parameters and each.default is None
    }


def left_out(parameters: Sequence[inspect.Parameter], call: str) -> list[inspect.Parameter]:
    """Returns the parameters with a default that the call of ``f`` in a text leaves out; none where it unpacks arguments."""
    nodes = [node for node in ast.walk(ast.parse(call, mode="eval")) if isinstance(node, ast.Call)]
    # The instance that f(columns) makes is what takes the input; a kernel stands before its grid.
    calls = [
        node for node in nodes if isinstance(node.func, ast.Call) or re.match(r"f\b(?!\()", ast.unparse(node.func))
    ]
    words = [word for node in calls for word in node.keywords]
    if any(isinstance(text, ast.Starred) for node in calls for text in node.args) or any(w.arg is None for w in words):
        return []
    count = max((len(node.args) for node in calls), default=0)
    by_place = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    given = {*by_place, *(word.arg for word in words)}
    return [p for p in parameters if p.default is not p.empty and p.name not in given]


def of_parameters(parameters: Sequence[inspect.Parameter]) -> dict[str, str]:
    """Returns the names of parameters with a default by the operation's parameters that they are for; a temperature stands beside a scale."""
    found: dict[str, str] = {}
    for one, each in _meant(parameters):
        if _plain(each.name) not in OTHERWISE:
            found.setdefault("temperature" if one.kind == "inverse" else one.parameter, each.name)
    return found


def _meant(parameters: Sequence[inspect.Parameter]) -> list[tuple[Meaning, inspect.Parameter]]:
    """The meanings of parameters with a default, those of the same parameter of the operation one after the other."""
    return [(one, p) for one in PARAMETERS for p in parameters if p.default is not p.empty and one.is_of(p.name)]


def _if_judged(meaning: Meaning, parameter: inspect.Parameter, operation: Operation) -> Parameter | None:
    """The value that a default stands for, as ``_read`` gives it; None for one that the operation is not judged with."""
    try:
        value = _read(meaning, parameter)
        if value is not None:
            operation_of(operation.name, {**operation.parameters, meaning.parameter: value})
    except UsageError:
        return None
    return value


def _read(meaning: Meaning, parameter: inspect.Parameter) -> Parameter | None:
    """The value of the operation's parameter that a default stands for, or None for the function's own. Raises UsageError for what stands for none."""
    default: Any = parameter.default
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if meaning.kind == "flag" and isinstance(default, bool):
        return meaning.telling if default else ""
    if default is None or default is False or meaning.kind == "operand":
        return None
    if meaning.parameter == "window" and {*(default if isinstance(default, tuple | list) else (default,))} == {-1}:
        return None
    if meaning.parameter == "scale" and (default == 0 or (_plain(parameter.name) in OTHERWISE and default != 1)):
        # It may be no scale at all.
        return None
    if meaning.kind == "word" and isinstance(default, str):
        return default
    if meaning.kind in ("flag", "word") or not is_number:
        raise UsageError("it is of another type")
    return 1.0 / default if meaning.kind == "inverse" else float(default)


def _check(operation: str, name: str, value: Parameter, others: Mapping[str, Parameter]) -> None:
    """Raises UsageError for a value that is not judged beside the others, or that contradicts one of them."""
    if name in others:
        raise UsageError(f"another default says {name}={value_in_words(others[name])}")
    operation_of(operation, {**others, name: value})


def _own(operation: Operation, name: str) -> Parameter:
    """The value that a parameter has beside the others where nobody gives it, as 1 / sqrt(head_dim) for a scale."""
    others = {each: value for each, value in operation.parameters.items() if each != name}
    try:
        return operation_of(operation.name, others).parameters[name]
    except UsageError:
        return operation_of(operation.name).parameters[name]
