"""The result of recognising a function: how it is called and what it computes. Imports no torch."""

import re
from collections.abc import Mapping

import msgspec

from softcheck.operations.operation import Parameter, value_in_words
from softcheck.variants.declaration import Declaration
from softcheck.variants.forms import NAMES, PLAIN

OVER_OTHERS: Mapping[str, str] = {
    "f(x.mT).mT": "over dimension 0",
    "f(x3.movedim(-1, 1)).movedim(1, -1)": "over dimension 1 of 3",
    "f(x4.movedim(-1, 1)).movedim(1, -1)": "over dimension 1 of 4",
}
"""Calls of functions over another dimension than the last, in words."""

OVER_OTHERS_OF_ROWS: Mapping[str, str] = {call.partition(").")[0] + ")": words for call, words in OVER_OTHERS.items()}
"""The same for a function with one answer for each row, which lacks that dimension."""

NEGATED = ".neg()"
"""The end of a call of a function that gives log-probabilities in place of losses."""


class Recognised(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function's call and operation, as trials show before a run: all processes are told, and none decides by an input that it sees."""

    operation: str
    parameters: dict[str, Parameter] = {}
    """The parameters of the operation that are declared, or shown by the trials."""
    call: str = ""
    """The call without the answer's place; empty if no trial has shown one, and the likeliest by names is made."""
    part: str = ""
    """What picks the answer from a tuple or the like."""
    beside: dict[str, bool] = {}
    """The tensors beside the answer, by what picks them, with True for one number for each row."""
    others: tuple[str, ...] = ()
    """Calls with the same operands in another meaning, where none was right."""
    remarks: tuple[str, ...] = ()
    """Sentences on what the defaults of the function's parameters say of the operation."""
    dtype: str = "float32"
    """The dtype of the trials."""
    taken: str = ""
    """What the operation, or a parameter of it, was taken from, where nobody says it: its answers or its name."""
    computes: str = ""
    """Options that name the operation whose answers it gives, where that is another than the one it is judged by."""

    @property
    def text(self) -> str:
        """The whole call; empty if none was found."""
        return self.call + self.part

    def in_words(self) -> str:
        """Says how a function is called and as what it is judged, as ``called as f(x.mT).mT: softmax over dimension 0``."""
        over = OVER_OTHERS.get(self.call) or OVER_OTHERS_OF_ROWS.get(self.call)
        numbers = ", ".join(f"{name}={value_in_words(value)}" for name, value in self.parameters.items())
        call, *meanings = _in_words(self.text or PLAIN).split("; ")
        judged = [self.operation, over, numbers and f"with {numbers}", self.taken and f"by {self.taken}"]
        said = [
            self.computes and f"its answers are those of {_named(self.computes)}: add {self.computes} to judge it so",
            f"called as {call}: {' '.join(filter(None, judged))}",
            self.taken and "add --operation to judge another",
            "its answers are the negatives of losses" if self.call.endswith(NEGATED) else "",
            *meanings,
        ]
        return "; ".join(filter(None, said))


def _named(options: str) -> str:
    """The operation, and what is declared beside it, in options."""
    words = options.split()
    found = dict(zip(words[::2], words[1::2], strict=True))
    declared = found.get("--declare")
    return f"{found.get('--operation', 'it')}{f' with {declared}' if declared else ''}"


def unrecognised(declaration: Declaration) -> Recognised:
    """The fact that no trial has shown a call, so that the likeliest by names is made."""
    return Recognised(operation=declaration.operation, parameters=declaration.parameters)


def _in_words(text: str) -> str:
    """A call with the meaning of those of its names that say more than the matrix itself."""
    meant = [
        f"{name} is {meaning}"
        for name, meaning in NAMES.items()
        if name not in ("x", "rows", "columns") and re.search(rf"\b{name}\b", text)
    ]
    return "; ".join([text, *meant])
