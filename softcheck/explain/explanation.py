"""The parts of an explanation, and its text."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The meaning of a word of a report. Parts that do not apply are empty."""

    meaning: str
    """One sentence or more, without a capital and without a full stop at the end."""
    example: str = ""
    """The smallest function that shows it, at its end, without imports of torch, triton and softcheck."""
    shown_by: str = ""
    """Options of ``softcheck report`` under which the example shows it, in float16."""
    cause: str = ""
    """The usual cause."""
    mend: str = ""
    declare: str = ""
    """The declaration under which it is no finding."""

    @property
    def program(self) -> str:
        """The example with its imports."""
        modules = {"torch": "torch", "triton": "triton", "triton.language as tl": "tl", "softcheck": "softcheck"}
        imports = [f"import {name}" for name, word in modules.items() if re.search(rf"\b{word}\.", self.example)]
        return "\n".join([*imports, *(["", ""] if imports else []), self.example.strip("\n"), ""])

    @property
    def function(self) -> str:
        """The name of the example's function."""
        return str(re.findall(r"^(?:def )?(\w+)(?:\(| =)", self.example, re.MULTILINE)[-1])

    def text(self, name: str) -> str:
        """All parts as plain text that is Markdown too."""
        parts = [f"# {name}", _sentence(self.meaning)]
        if self.example:
            parts.append(f"```python\n{self.program}```")
            parts.append(
                f"```console\n$ softcheck report example.py:{self.function} --dtype float16 {self.shown_by}\n```"
            )
        parts += [
            f"{title}: {_sentence(text, capital=False)}"
            for title, text in (("Usual cause", self.cause), ("Fix", self.mend), ("To declare it", self.declare))
            if text
        ]
        return "\n\n".join(parts) + "\n"


def _sentence(text: str, *, capital: bool = True) -> str:
    return f"{text[0].upper() if capital else text[0]}{text[1:]}."
