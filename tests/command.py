"""The command line in this process, for tests of what it prints and how it exits.

A process of its own costs each test half a second of imports, and seconds for the server that its workers are forked from:
here one serves all tests. Tests of signals, pipes and of what is imported start ``python -m softcheck.cli.main`` themselves.
"""

import contextlib
import io
import subprocess
import sys
import warnings
from unittest.mock import patch

import click
import pytest

from softcheck.cli.main import cli, main


def softcheck(*arguments, cwd=None, **environment):
    """Runs ``softcheck ARGUMENTS`` in a folder with more environment variables; returns what ``subprocess.run`` would."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    words = ["softcheck", *map(str, arguments)]
    code = None
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", words)
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        patch.syspath_prepend(cwd or "")
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    printed = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return subprocess.CompletedProcess(words, code, *printed)


def parse(arguments):
    """Lets click parse a command line, subcommands and options included, without running the command."""
    with patch.object(click.Command, "invoke", return_value=None):
        cli.main(args=arguments, prog_name="softcheck", standalone_mode=False)
