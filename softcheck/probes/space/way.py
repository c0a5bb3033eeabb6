"""Axes of circumstances, and a way: a call as one point of their space. Imports no torch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from softcheck.errors import UsageError, near_matches

VALUES = "values"
"""The axis of random numbers: its values are those that ways of a plan draw, by number, and are nobody's circumstance."""

DECLARED = "as declared"
"""The plain value of an axis of sizes that a declaration may name."""


@dataclass(frozen=True, slots=True)
class WayAxis:
    """One kind of circumstance. The first of its values is the plain one."""

    name: str
    values: tuple[str, ...]
    is_core: bool = False
    """True if kernels branch on it, so that its values meet those of two other such axes at once."""
    is_promised: bool = True
    """False for what nobody promises to take, such as an option: a refusal of it is no fault."""
    refusal: Literal["", "met", "alone"] = ""
    """Refusals of promised values that are faults: none, those of values that meet others, or of one alone too."""
    compiles: bool = False
    """True if the code is compiled anew for each value, which takes a hundred times as long as a call."""
    is_dear: bool = False
    """True if its values take several calls, so that a plan has them where they meet several others for the first time."""
    is_planned: bool = True
    """False for what is too dear, or has too many values, to meet others: ways that are always made have its values."""

    @property
    def plain(self) -> str:
        """The value that an ordinary call has."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Way:
    """A call in its circumstances: the values that are not plain, by axis and in the axes' order."""

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, axes: Sequence[WayAxis], values: Mapping[str, str]) -> Self:
        """Returns the way with these values; axes that are not named have their plain value."""
        return cls(tuple((a.name, values[a.name]) for a in axes if values.get(a.name, a.plain) != a.plain))

    @classmethod
    def parse(cls, text: str, axes: Sequence[WayAxis]) -> Self:
        """Reads ``axis=value,axis=value``. Raises UsageError for an axis or a value that the function does not have."""
        known, found = {axis.name: axis for axis in axes}, dict[str, str]()
        for part in filter(None, (each.strip() for each in text.split(","))):
            name, _, value = part.partition("=")
            if name == VALUES and value.isdecimal():
                found[name] = value
                continue
            if name not in known:
                raise UsageError(f"--axis: unknown axis {name!r}; {near_matches(name, list(known))}")
            if value not in known[name].values and not _is_size(known[name], value):
                raise UsageError(
                    f"--axis: {name} has no value {value!r}; expected one of {', '.join(known[name].values)}"
                )
            found[name] = value
        numbers = ((VALUES, found[VALUES]),) if VALUES in found else ()
        return cls((*cls.of(axes, found).values, *numbers))

    def get(self, axis: str, plain: str = "") -> str:
        """Returns the value on an axis; ``plain`` where it is plain."""
        return dict(self.values).get(axis, plain)

    def without(self, axis: str) -> "Way":
        """Returns the way with the plain value on an axis."""
        return Way(tuple(each for each in self.values if each[0] != axis))

    def having(self, axis: str, value: object) -> "Way":
        """Returns the way with a value, not the plain one, on an axis."""
        values = dict(self.values) | {axis: str(value)}
        return Way(tuple(values.items()))

    @property
    def meeting(self) -> "Way":
        """The way without its random numbers."""
        return self.without(VALUES)

    def holds(self, other: "Way") -> bool:
        """True if it has all values of another way that are not plain."""
        return set(other.values) <= set(self.values)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values)

    @property
    def words(self) -> str:
        """The way as a sentence has it."""
        return " and ".join(f"{name} {value}" for name, value in self.meeting.values) or "plain values"


def named(values: Iterable[str]) -> dict[str, str]:
    """Returns values by what ways call them, which is without the marks that ``Way.parse`` reads."""
    return {value.replace(",", ";").replace("=", ":"): value for value in values}


def names_of(values: Iterable[str]) -> tuple[str, ...]:
    """Returns what ways call values, each once."""
    return (*named(values),)


def _is_size(axis: WayAxis, value: str) -> bool:
    """True if a number stands for a value of an axis of sizes: a reduced way has sizes that no plan names."""
    sizes = axis.values[1:] if axis.plain == DECLARED else axis.values
    return value.isdecimal() and all(each.isdecimal() for each in sizes)
