"""The parts of an explanation, and its text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The meaning of a word of a report. Parts that do not apply are empty."""

    meaning: str
    """One sentence or more, without a capital and without a full stop at the end."""
    example: str = ""
    """The smallest kernel, or the lines of one, that show it."""
    cause: str = ""
    """The usual cause."""
    mend: str = ""
    declare: str = ""
    """The declaration under which it is no finding."""

    def text(self, name: str) -> str:
        """All parts as plain text that is Markdown too."""
        parts = [f"# {name}", _sentence(self.meaning)]
        if self.example:
            parts.append("\n".join(["```python", self.example.strip("\n"), "```"]))
        parts += [
            f"{title}: {_sentence(text, capital=False)}"
            for title, text in (("Usual cause", self.cause), ("Mend", self.mend), ("To declare it", self.declare))
            if text
        ]
        return "\n\n".join(parts) + "\n"


def _sentence(text: str, *, capital: bool = True) -> str:
    return f"{text[0].upper() if capital else text[0]}{text[1:]}."
