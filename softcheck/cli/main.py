"""The ``softcheck`` command. Subcommands are imported when they are called, so that ``--help`` answers at once."""

import os
import sys
from importlib import import_module
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, shell_complete

from softcheck import __version__
from softcheck.cli.config import SuggestingGroup, unknown_variables, words
from softcheck.errors import SoftcheckError

_COMMANDS: dict[str, list[str]] = words()["commands"]
"""The module and the function of each command, and its summary."""


class _Lazy(SuggestingGroup):
    """A group that knows its commands by name and imports one only to run it or to print its own help."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Takes a function in a command's place for what ``report`` is to judge."""
        is_function = bool(arguments) and ":" in arguments[0] and not arguments[0].startswith("-")
        return super().parse_args(context, ["report", *arguments] if is_function else arguments)

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, function = _COMMANDS[name][0].partition(":")
        command: click.Command = getattr(import_module(f"softcheck.cli.{module}"), function)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in _COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands by name, without importing any, or the group's own options."""
        names = [CompletionItem(n, help=said) for n, (_, said) in _COMMANDS.items() if n.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="softcheck")
def cli() -> None:
    """Judge GPU softmax kernels: ULP errors against exact oracles, the softmax contract, and speed.

    softcheck FILE:FUNCTION is short for softcheck report FILE:FUNCTION.

    Exit codes: 0 clean; 1 a promise was broken; 2 wrong usage, file or configuration; 3 nothing was run; 130 interrupted.
    """
    for sentence in unknown_variables(cli):
        click.echo(f"softcheck: {sentence}", err=True)


_COMPLETION = "_SOFTCHECK_COMPLETE"
"""Variable by which a shell asks for completions of a word, as click defines it."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Entry point. Deliberate errors print one message and exit with their code; anything else is a bug and shows."""
    try:
        if asked := os.environ.get(_COMPLETION):
            sys.exit(shell_complete(cli, {}, "softcheck", _COMPLETION, asked))
        # Not cli.main: it ends with 1, a broken promise, where a reader of the output has closed the pipe.
        with cli.make_context("softcheck", list(sys.argv[1:] if arguments is None else arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except SoftcheckError as error:
        click.echo(f"softcheck: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("softcheck: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader has closed the output; Python would complain once more while it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    sys.exit(0)


if __name__ == "__main__":
    main()
