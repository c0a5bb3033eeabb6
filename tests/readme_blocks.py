"""The README's commands and quoted outputs. tests/README.md defines the convention.

Run as a script, prints the install commands, one per line: those that .ci/run runs. Needs the standard library only.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKED = re.compile(r"\s*<!--\s*checked:\s*(.+?)\s*-->\s*")
FENCE = re.compile(r"(`{3,}|~{3,})\s*(\S*)[^`]*")
SEPARATORS = {"&&", "||", ";", "|", "&", "|&"}


@dataclass(frozen=True)
class Block:
    """A fenced block. ``checked`` is the command whose output it quotes, where a comment just above says so."""

    language: str
    text: str
    line: int
    checked: str | None

    @property
    def commands(self) -> list[str]:
        """Commands of a console block: lines after ``$``, joined with the next line where they end in a backslash."""
        if self.language != "console":
            return []
        joined = re.sub(r"\\\n\s*(?:>\s)?", "", self.text)
        return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]

    @property
    def output(self) -> str:
        """The quoted output of the block, without the lines that show the command."""
        joined = re.sub(r"\\\n\s*(?:>\s)?", "", self.text)
        return "".join(line for line in joined.splitlines(keepends=True) if not line.startswith("$ "))


def blocks(markdown: str) -> list[Block]:
    """Fenced blocks in order; raises ValueError for a fence that is never closed or a check without a block."""
    found: list[Block] = []
    lines = iter(enumerate(markdown.splitlines(), start=1))
    checked: tuple[int, str] | None = None
    for number, line in lines:
        fence = FENCE.fullmatch(line)
        comment = CHECKED.fullmatch(line)
        if fence:
            found.append(_block(lines, number, fence, None if checked is None else checked[1]))
            checked = None
        elif comment:
            checked = (number, comment[1])
        elif checked and line.strip():
            break
    if checked:
        raise ValueError(f"line {checked[0]}: no fenced block follows `checked: {checked[1]}`")
    return found


def _block(lines: Iterator[tuple[int, str]], start: int, fence: re.Match[str], checked: str | None) -> Block:
    text = ""
    for _, line in lines:
        if line.strip() == fence[1]:
            return Block(fence[2], text, start, checked)
        text += line + "\n"
    raise ValueError(f"line {start}: the fence is never closed")


def commands(markdown: str) -> list[str]:
    """All commands of all console blocks."""
    return [command for block in blocks(markdown) for command in block.commands]


def install_commands(markdown: str) -> list[str]:
    """The commands that start from nothing; .ci/run runs each in a new environment."""
    return [command for command in commands(markdown) if command.startswith("pip install ")]


def invocations(command: str, program: str = "softcheck") -> list[list[str]]:
    """Arguments of each call of a program in a shell command line, without redirections."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    segments: list[list[str]] = [[]]
    for word in lexer:
        if word in SEPARATORS:
            segments.append([])
        else:
            segments[-1].append(word)
    found = []
    for segment in segments:
        words = _without_redirections(segment)
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        if words[:1] == [program]:
            found.append(words[1:])
    return found


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if set(word) <= set("<>&") and word:
            next(rest, None)
            # The shell takes a digit that touches the sign as a file descriptor: 2>&1.
            kept = kept[:-1] if kept and kept[-1].isdigit() and word != "<" else kept
        else:
            kept.append(word)
    return kept


def main() -> int:
    """Print the install commands of the file named on the command line; 1 where there are fewer than two."""
    path = Path(sys.argv[1])
    found = install_commands(path.read_text(encoding="utf-8"))
    if len(found) < 2:
        sys.stderr.write(
            f"{path}: found {found}, expected two `$ pip install` commands in console blocks: run and test\n"
        )
        return 1
    sys.stdout.write("".join(f"{command}\n" for command in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
