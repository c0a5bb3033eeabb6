"""Weaker arithmetics that an output that breaks the standard contract would keep, had they been declared."""

from softcheck.operations.arithmetic import Arithmetic

_OF_ANY_WIDTH = (
    Arithmetic(flush_to_zero=True),
    Arithmetic(division="reciprocal"),
    Arithmetic(scaled_logits=True),
    Arithmetic(lanes=1),
    Arithmetic(exp="prescaled_ex2_approx"),
    Arithmetic(exp="prescaled_ex2_approx", flush_to_zero=True),
)
_OF_16_BITS = (
    Arithmetic(intermediate="input"),
    Arithmetic(accumulation="input"),
    Arithmetic(accumulation="input", intermediate="input"),
)


def candidates(width: int) -> tuple[Arithmetic, ...]:
    """Arithmetics that a declaration may name for a format of ``width`` bits, beginning with those that allow less."""
    return (*_OF_ANY_WIDTH, *(_OF_16_BITS if width == 16 else (Arithmetic(products="tf32"),)))


def in_words(arithmetic: Arithmetic) -> str:
    """Returns the argument of ``@variant`` that declares the arithmetic, without fields that equal the defaults."""
    standard = Arithmetic()
    fields = (name for name in arithmetic.__struct_fields__ if getattr(arithmetic, name) != getattr(standard, name))
    return f"arithmetic=Arithmetic({', '.join(f'{name}={getattr(arithmetic, name)!r}' for name in fields)})"
