"""The members of a tuple, list or the like that a call picks no answer from, and how they can be judged. Imports no torch."""

import re

from softcheck.errors import UsageError
from softcheck.operations.operation import Operation
from softcheck.operations.registry import operation as operation_of
from softcheck.variants.forms import Form

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
