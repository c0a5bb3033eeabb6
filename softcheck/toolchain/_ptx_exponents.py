"""The way of logits to an exponential: the number subtracted from them, and the factors before and after that.

An exponent is followed back to the addition that brings a maximum in. It may be a subtraction, an addition of a negated
value, or a product fused with either. Only PTX is read, so a factor that arrives as an argument may be any number.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from softcheck.toolchain._ptx_code import Code, Instruction

_LOG2E = math.frexp(math.log2(math.e))[0]
_LN2 = math.frexp(math.log(2))[0]
_PRODUCTS = ("mul", "fma", "mad")
_SUMS = ("add", "sub", "fma", "mad")
_CHOICES = ("max", "min")


@dataclass(frozen=True, slots=True)
class Subtraction:
    """The subtraction of a maximum in one exponent."""

    factors: frozenset[str] = frozenset()
    """Factors of the logits before the subtraction, other than powers of two: ``constant``, ``log2e`` (times a power of
    two), and ``argument`` for a factor that is no constant."""
    scaled_after: bool = False
    """True if the difference itself is multiplied by a factor that is no power of two."""
    fused: bool = False
    """True if a product that rounds is fused with the subtraction."""
    other_maximum: bool = False
    """True if the maximum is that of the same logits, scaled otherwise."""


@dataclass(frozen=True, slots=True)
class _Term:
    """One summand: an operand, or the product of two, with its sign as written."""

    operands: tuple[str, ...]
    negative: bool = False


class Exponents:
    """Questions to the exponents of one kernel."""

    def __init__(self, code: Code, starts: Iterable[Instruction] = ()) -> None:
        """``starts`` are the instructions with which float64 exponentials begin.

        PTX has no single instruction for a float64 exponential.
        """
        self.code = code
        self._found: dict[str, list[Subtraction]] = {}
        self._behind_operands: dict[tuple[str, ...], list[Instruction]] = {}
        registers = [r for i in starts for r in i.results]
        # Logits that are prefetched into shared memory would seem to come from what was last reduced there: a sum, say.
        self._derived = {id(i) for i in code.reached(registers, lambda i: i.operation in ("div", "rcp"))}
        self._polynomials = {
            id(i) for i in code.reached(registers, lambda i: i.type == "f64" and not code.constants(i))
        }

    def shifts(self, exponent: str) -> list[Subtraction]:
        """The subtractions of a maximum on the way to an exponent; none where nothing was subtracted."""
        if exponent not in self._found:
            # An exponent that a loop leads back to adds nothing new.
            self._found[exponent] = []
            self._found[exponent] = list(dict.fromkeys(self._behind(exponent)))
        return self._found[exponent]

    def _behind(self, register: str) -> Iterator[Subtraction]:
        for i in self.code.sources(register):
            if i.operation == "mul" and i.type:
                for operand, factor in (i.operands, i.operands[::-1]):
                    yield from (self._scaled(shift, i, factor) for shift in self.shifts(operand))
            elif i.operation == "div" and i.type:
                yield from (self._scaled(shift, i, i.operands[1]) for shift in self.shifts(i.operands[0]))
            elif i.operation in _SUMS and i.type:
                yield from self._behind_sum(i)
            elif i.operation in _CHOICES and self.code.constants(i):
                for operand in i.operands:
                    yield from self.shifts(operand)

    def _behind_sum(self, i: Instruction) -> Iterator[Subtraction]:
        """Shifts inside the summands, else this addition itself where it subtracts a maximum."""
        inside: list[Subtraction] = []
        for term in _terms(i):
            if inside and term.negative:
                # The logarithm of a sum, which may itself be made of differences.
                break
            for at, operand in enumerate(term.operands):
                others = term.operands[:at] + term.operands[at + 1 :]
                inside += [self._scaled(s, i, others[0]) if others else s for s in self.shifts(operand)]
        if inside:
            yield from inside
            return
        first, second = _terms(i)
        for logits, subtracted in ((first, second), (second, first)):
            if self._is_subtracted(subtracted, logits):
                yield self._shift(i, logits, subtracted)
                return

    def _scaled(self, shift: Subtraction, i: Instruction, factor: str) -> Subtraction:
        return replace(shift, scaled_after=shift.scaled_after or self._factor(i, (factor,)) is not None)

    def _shift(self, i: Instruction, logits: _Term, subtracted: _Term) -> Subtraction:
        products, taken = self._products(i, logits), self._products(i, subtracted)
        factors = frozenset(kind for product, operands in products if (kind := self._factor(product, operands)))
        fused = any(len(t.operands) > 1 and self._factor(i, t.operands) is not None for t in (logits, subtracted))
        other = bool(products) != bool(taken) and self._is_maximum_of(subtracted, logits)
        return Subtraction(factors, fused=fused, other_maximum=other)

    def _is_subtracted(self, term: _Term, other: _Term) -> bool:
        """True if a summand is a maximum, or is negated and was loaded.

        A loaded summand is a maximum or a logarithm of a sum from elsewhere.
        """
        origins = self._origins(term)
        if any(self._selects_largest(i) for i in origins):
            # Logits may themselves have been chosen from, as where they are capped.
            return term.negative or not other.negative
        loaded = any(i.operation in ("ld", "atom") for i in origins)
        return loaded and (term.negative != self._is_negated(term))

    def _is_negated(self, term: _Term) -> bool:
        """True if a summand's sign changes on its way, by an instruction or a negative constant."""
        negated = False
        for operand in term.operands:
            value = self.code.number(operand, "f32")
            negated ^= value is not None and value < 0
            register: str | None = operand
            met = set()
            while register is not None and register not in met:
                met.add(register)
                definitions = self.code.definitions.get(register, [])
                register = None
                for i in definitions[:1]:
                    negated ^= i.operation == "neg"
                    if i.operation == "mul" and i.type:
                        values = [self.code.number(o, i.type) for o in i.operands]
                        negated ^= any(v is not None and v < 0 for v in values)
                        register = next((o for o, v in zip(i.operands, values, strict=True) if v is None), None)
                    elif i.copies and i.operands:
                        register = i.operands[0]
        return negated

    def _is_maximum_of(self, term: _Term, logits: _Term) -> bool:
        """True if a summand is a maximum taken in this kernel of the values that the logits were loaded as."""
        origins = self._origins(term)
        if not any(self._selects_largest(i) for i in origins):
            return False
        theirs = {self._address(i) for i in self._origins(logits) if i.opcode.startswith("ld.global")}
        return bool(theirs) and theirs == {self._address(i) for i in origins if i.opcode.startswith("ld.global")}

    def _selects_largest(self, i: Instruction) -> bool:
        """True if an instruction chooses between two values that are not known beforehand."""
        if i.operation == "setp":
            return any(f".{c}." in i.opcode for c in ("gt", "ge", "lt", "le")) and i.type != "" and self._is_open(i)
        if i.operation in ("redux", "atom"):
            return ".max" in i.opcode or ".min" in i.opcode
        return i.operation in _CHOICES and self._is_open(i)

    def _is_open(self, i: Instruction) -> bool:
        return not self.code.constants(i)

    def _origins(self, term: _Term) -> list[Instruction]:
        """Everything that a summand was computed from, as far as loads and exponentials."""
        if term.operands not in self._behind_operands:
            self._behind_operands[term.operands] = self.code.origins(
                term.operands, lambda i: i.operation in ("ld", "atom", "ex2") or id(i) in self._polynomials
            )
        return self._behind_operands[term.operands]

    def _address(self, load: Instruction) -> frozenset[str]:
        """The pointers that a load's address was computed from, by their parameters' names."""
        parameters = self.code.origins(load.operands, lambda i: i.operation == "ld")
        return frozenset(
            o for i in parameters if i.opcode.startswith("ld.param") and "64" in i.opcode for o in i.operands
        )

    def _products(self, addition: Instruction, term: _Term) -> list[tuple[Instruction, tuple[str, ...]]]:
        """The products that went into a summand, logits or their maximum, and the factors of each."""
        found = [(addition, term.operands)] if len(term.operands) > 1 else []
        waiting, met = self._loaded_of(term.operands), set()
        while waiting:
            register = waiting.pop()
            if register in met:
                continue
            met.add(register)
            for i in self.code.sources(register):
                if id(i) in self._derived:
                    continue
                if i.operation in _PRODUCTS and i.type:
                    found.append((i, i.operands[:2]))
                elif i.operation == "div" and i.type:
                    found.append((i, i.operands[1:2]))
                if i.operation in _PASSING or self._selects_largest(i):
                    waiting += self._loaded_of(i.operands)
        # The same instruction may stand behind several registers.
        once = {id(i): (i, operands) for i, operands in found}
        ones = (1.0, -1.0)
        return [(i, o) for i, o in once.values() if not any(self.code.number(each, i.type) in ones for each in o)]

    def _loaded_of(self, operands: tuple[str, ...]) -> list[str]:
        """Returns the operands that come from memory, or all if none does.

        A factor may be a product too, of numbers that are no logits.
        """
        loaded = [o for o in operands if any(i.opcode.startswith("ld.global") for i in self._origins(_Term((o,))))]
        return loaded or list(operands)

    def _factor(self, i: Instruction, operands: tuple[str, ...]) -> str | None:
        """Returns the kind of a product's factor, as ``Subtraction.factors`` names it; None for a power of two."""
        values = [v for o in operands if (v := self.code.number(o, i.type)) is not None]
        if not values:
            return "argument"
        mantissa = abs(math.frexp(values[0])[0])
        if mantissa in (0.0, 0.5):
            return None
        log2e = _LN2 if i.operation == "div" else _LOG2E
        # Constants of 16 bits are rounded, and people write log2(e) with few digits.
        near = 2.0**-7 if "16" in i.type else 2.0**-13
        return "log2e" if math.isclose(mantissa, log2e, rel_tol=near) else "constant"


_PASSING = (*_PRODUCTS, "add", "sub", "div", "neg", "abs", "max", "min", "redux", "setp", "and", "or", "xor", "not")


def _terms(i: Instruction) -> tuple[_Term, _Term]:
    """The two summands of an addition, a subtraction or a fused operation."""
    if i.operation in ("fma", "mad"):
        return _Term(i.operands[:2]), _Term(i.operands[2:3])
    return _Term(i.operands[:1]), _Term(i.operands[1:2], negative=i.operation == "sub")
