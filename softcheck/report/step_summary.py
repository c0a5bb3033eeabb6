"""The summary of a step of GitHub Actions, to which a run adds its Markdown by itself."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

VARIABLE = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file of the step's summary."""

LIMIT = 1024 * 1024
"""Bytes of one step's summary; GitHub shows none of a longer one."""


def add(markdown: Callable[[], str]) -> None:
    """Appends the Markdown if the environment names a summary, and does nothing else.

    What would exceed the limit, with what the step has written before, is cut to its table, then to its first paragraphs. A file
    that can't be written is left alone: a summary is no reason for a run to fail.
    """
    path = os.environ.get(VARIABLE)
    if not path:
        return
    whole = markdown()
    table = whole.partition("<details>")[0]
    cut = f"A step's summary holds at most {LIMIT // 1024} KiB; the report has the rest.\n"
    with suppress(OSError, ValueError):
        file = Path(path)
        room = LIMIT - (file.stat().st_size if file.exists() else 0)
        for text in (whole, f"{table}{cut}", "\n".join([*whole.splitlines()[:3], "", cut])):
            data = f"{text}\n".encode("utf-8", "backslashreplace")
            if len(data) <= room:
                with file.open("ab") as summary:
                    summary.write(data)
                return
