"""Parts that a call leaves unjudged, and how it can be judged: members of what it returns, and temperatures that are all 1. Imports no torch."""

import re

from softcheck.errors import UsageError
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.forms import Form
from softcheck.variants.recognise import TEMPERATURES

_SUMS_OF = {"attention": "attention_logsumexp"}
"""The operation of the log-sum-exp that comes beside an operation's answer, where it is another than logsumexp."""
_ANY_TARGET = "torch.zeros(rows, dtype=torch.int64, device=x.device)"


def members_left_out(form: Form, operation: Operation) -> list[str]:
    """Returns a sentence on the tensors beside the one that is judged, with an option for one that may be a log-sum-exp.

    Returns none where a call has one answer, or was given with the member that it picks.
    """
    if not form.beside:
        return []
    places = ", ".join(form.beside)
    is_one = len(form.beside) == 1
    found = f"{places} of what it returns {'is' if is_one else 'are'} not judged"
    options = [
        f"if {place} is a log-sum-exp, --operation {name} --call '{call}' judges it"
        for place, is_of_rows in form.beside.items()
        if is_of_rows and (picked := _picking(form, place, operation)) is not None
        for name, call in [picked]
    ]
    other = "a wrapper that returns such a member alone is judged by the --operation that it is the answer of"
    return [f"{found}; {'; '.join(options) or other}"]


def temperatures_of_one(call: str) -> list[str]:
    """Returns a sentence on temperatures that are 1 for each row in a call, with one that has others; none for another call.

    Rows that are scaled by powers of two have the same answer behind such temperatures.
    """
    if TEMPERATURES not in call:
        return []
    other = "0.5 + torch.arange(rows, device=x.device) % 2 / 2"
    scaled = re.sub(r"\bx\b(?=[,)])", f"(x * ({other})[:, None]).to(x.dtype)", call, count=1)
    return [
        f"each row's temperature is 1 in its call; --call '{scaled.replace(TEMPERATURES, other)}' judges 1/2 and 1 in turn"
    ]


def _picking(form: Form, place: str, operation: Operation) -> tuple[str, str] | None:
    """The operation of a log-sum-exp and the call that picks it; None where that takes other operands."""
    name = _SUMS_OF.get(operation.name, "logsumexp")
    # The log-sum-exp of a loss is the same for all targets.
    call = (re.sub(r"\btarget\b(?!\s*=)", _ANY_TARGET, form.without_part) + place).replace("'", '"')
    try:
        Form(call).of(operation_of(name))
    except UsageError:
        return None
    return None if name == operation.name else (name, call)
