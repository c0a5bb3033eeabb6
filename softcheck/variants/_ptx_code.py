"""PTX as a graph: instructions, and which registers flow into which. Text only; nothing is executed.

Registers may be written in several places (loops copy into them), so every question is answered for all of a register's
definitions. Shared memory is one register that every store to it writes and every load from it reads.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LABEL = re.compile(r"^\s*[$%\w]+:(?!:)")
_PREDICATE = re.compile(r"^@!?%\w+\s+")
_STATEMENT = re.compile(r"^([a-z][\w.:]*)\s*(.*)$", re.DOTALL)
_TOKEN = re.compile(r"0[fFdD][0-9A-Fa-f]{8,16}|%?[A-Za-z_$][\w$]*(?:\.[xyzw])?|-?\d+")
_CONSTANT = re.compile(r"0[fFdD][0-9A-Fa-f]+$|-?\d+$")

SHARED = "shared memory"

_WITHOUT_RESULT = ("st.", "red.", "bar", "bra", "ret", "barrier", "membar", "fence", "cp.", "trap", "mbarrier", "exit")
_COPIES = ("mov", "selp", "shfl", "prmt", "cvt", "ld.shared", "st.shared", "stmatrix", "ldmatrix", "neg", "abs")


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction: its opcode with all modifiers, the registers it writes, and its operands in order."""

    opcode: str
    results: tuple[str, ...]
    operands: tuple[str, ...]

    @property
    def operation(self) -> str:
        """The opcode without modifiers, such as ``add``."""
        return self.opcode.partition(".")[0]

    @property
    def type(self) -> str:
        """The last floating-point type among the modifiers (for ``cvt`` that of the source), or an empty string."""
        found = re.findall(r"\.(b?f(?:16x2|32x2|16|32|64))\b", self.opcode)
        return found[-1] if found else ""

    @property
    def copies(self) -> bool:
        """Whether a value only passes through, at most with its sign or its type changed."""
        return self.opcode.startswith(_COPIES)


@dataclass(frozen=True, eq=False)
class Code:
    """The instructions of one PTX text."""

    instructions: tuple[Instruction, ...]

    @cached_property
    def definitions(self) -> dict[str, list[Instruction]]:
        """Instructions that write a register."""
        found = defaultdict(list)
        for instruction in self.instructions:
            for register in instruction.results:
                found[register].append(instruction)
        return found

    @cached_property
    def uses(self) -> dict[str, list[Instruction]]:
        """Instructions that read a register."""
        found = defaultdict(list)
        for instruction in self.instructions:
            for register in instruction.operands:
                found[register].append(instruction)
        return found

    @cached_property
    def in_order(self) -> "Code":
        """The same code with shared memory cut into one register per exchange: a load reads what was stored just before it.

        So one reduction's values are not taken for another's. Values that are stored, and loaded only after another
        exchange, are lost; Triton's reductions and changes of layout load what they have just stored.
        """
        exchange, loaded = 0, False
        numbered = []
        for i in self.instructions:
            if SHARED in i.results:
                exchange, loaded = exchange + loaded, False
            elif SHARED in i.operands:
                loaded = True
            place = {SHARED: f"{SHARED} {exchange}"}
            results, operands = (tuple(place.get(r, r) for r in registers) for registers in (i.results, i.operands))
            numbered.append(Instruction(i.opcode, results, operands))
        return Code(tuple(numbered))

    def constant(self, operand: str) -> str | None:
        """The constant that an operand always is, in PTX's notation in upper case but for the prefix, or None."""
        if _CONSTANT.match(operand):
            return operand[:2].lower() + operand[2:].upper() if operand[:2].lower() in ("0f", "0d") else operand
        definitions = self.definitions.get(operand, [])
        if len(definitions) != 1 or definitions[0].operation != "mov" or len(definitions[0].operands) != 1:
            return None
        source = definitions[0].operands[0]
        return self.constant(source) if _CONSTANT.match(source) else None

    def constants(self, instruction: Instruction) -> set[str]:
        """The constants among an instruction's operands."""
        return {value for operand in instruction.operands if (value := self.constant(operand)) is not None}

    def sources(self, register: str) -> list[Instruction]:
        """The instructions that computed a register's value, behind copies of it and through shared memory."""
        return [
            i for i in self._walk([register], Instruction.copies.__get__, self.definitions, "operands") if not i.copies
        ]

    def readers(self, registers: Iterable[str]) -> list[Instruction]:
        """The instructions that compute with a value, behind copies of it; conversions are among them."""
        return self._walk(registers, lambda i: i.copies and i.operation != "cvt", self.uses, "results")

    def reached(self, registers: Iterable[str], stops: Callable[[Instruction], bool]) -> list[Instruction]:
        """Every instruction that values derived from registers flow into; none behind one that ``stops``."""
        return self._walk(registers, lambda i: not stops(i), self.uses, "results")

    def _walk(
        self,
        registers: Iterable[str],
        passes: Callable[[Instruction], bool],
        edges: dict[str, list[Instruction]],
        onward: str,
    ) -> list[Instruction]:
        """Instructions met from registers along edges, going on behind those that pass."""
        waiting, met, seen = list(registers), {}, set()
        while waiting:
            register = waiting.pop()
            if register in seen:
                continue
            seen.add(register)
            for instruction in edges.get(register, []):
                if id(instruction) in met:
                    continue
                met[id(instruction)] = instruction
                if passes(instruction):
                    waiting.extend(getattr(instruction, onward))
        return list(met.values())


def parse(ptx: str) -> Code:
    """Instructions of a PTX text. Directives, labels, comments and debugging sections are left out."""
    text = _COMMENT.sub("", ptx.partition(".section")[0])
    instructions = []
    for line in re.split(r"[;\n]", text):
        statement = _LABEL.sub("", line).strip().lstrip("{").strip()
        statement = _PREDICATE.sub("", statement)
        matched = _STATEMENT.match(statement)
        if matched is not None:
            instructions.append(_instruction(matched[1], matched[2]))
    return Code(tuple(instructions))


def _instruction(opcode: str, operands: str) -> Instruction:
    if opcode.startswith("call"):
        return Instruction(opcode, (), tuple(_TOKEN.findall(operands)))
    groups = [_TOKEN.findall(group) for group in re.split(r",(?![^{\[(]*[}\])])", operands)]
    if opcode.startswith(("st.shared", "stmatrix")):
        return Instruction(opcode, (SHARED,), tuple(t for group in groups[1:] for t in group))
    if opcode.startswith(_WITHOUT_RESULT):
        return Instruction(opcode, (), tuple(t for group in groups for t in group))
    if opcode.startswith(("ld.shared", "ldmatrix")):
        return Instruction(opcode, tuple(groups[0]), (SHARED,))
    return Instruction(opcode, tuple(groups[0]), tuple(t for group in groups[1:] for t in group))
