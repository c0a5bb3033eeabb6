"""Environment and ``[tool.softcheck]`` hold for every command, and misspelt settings are noticed."""

import json

import click
import pytest
from command import softcheck

from softcheck.cli.config import INTERNAL, ConfiguredCommand, settings_of, variable
from softcheck.cli.main import cli

FEW = ["--device", "interpreter", "--sample-first", "20", "--format", "json"]


def leaves(command):
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        yield from leaves(found) if isinstance(found, click.Group) else [(name, found)]


def test_every_command_with_options_reads_environment_and_configuration():
    for name, command in leaves(cli):
        options = [p for p in command.params if isinstance(p, click.Option)]
        assert isinstance(command, ConfiguredCommand) or not options, name
        assert all(p.envvar == variable(p.opts[-1].removeprefix("--")) for p in options), name


def test_variables_that_are_no_settings_are_the_ones_that_softcheck_reads():
    assert not {variable(setting) for setting in settings_of(cli)} & INTERNAL


def exhausted(tmp_path, *arguments, **environment):
    done = softcheck("exhaust", *FEW, *arguments, cwd=tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    return row["name"], row["dtype"], done.stderr


def test_command_line_environment_and_pyproject_in_this_order(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.softcheck]\ndtype = ["bfloat16"]\nseed = 5\nvariant = "torch"\n')
    assert exhausted(tmp_path)[:2] == ("torch", "bfloat16")
    assert exhausted(tmp_path, "online", SOFTCHECK_DTYPE="float16")[:2] == ("online", "float16")
    assert exhausted(tmp_path, "--dtype", "bfloat16", SOFTCHECK_DTYPE="float16", SOFTCHECK_VARIANT="online")[:2] == (
        "online",
        "bfloat16",
    )


def test_a_list_that_another_command_takes_is_refused_where_it_would_count_and_nowhere_else(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.softcheck]\ndtype = ["float16", "bfloat16"]\n')
    done = softcheck("exhaust", "torch", *FEW, cwd=tmp_path)
    assert done.returncode == 2
    assert "dtype = ['float16', 'bfloat16']" in done.stderr
    assert exhausted(tmp_path, "torch", "--dtype", "float16")[1] == "float16"


@pytest.mark.parametrize("arguments", [["bench", "torch"], ["report", "--variant", "torch"]], ids=lambda a: a[0])
def test_a_value_that_is_none_is_refused_by_every_command(tmp_path, arguments):
    done = softcheck(*arguments, cwd=tmp_path, SOFTCHECK_SEED="abc")
    assert done.returncode == 2
    assert "SOFTCHECK_SEED" in done.stderr
    (tmp_path / "pyproject.toml").write_text('[tool.softcheck]\nseed = "abc"\n')
    done = softcheck(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "seed = 'abc'" in done.stderr


def test_misspelt_key_is_refused_and_misspelt_variable_warned_of_by_every_command(tmp_path):
    done = softcheck(
        "list", "formats", cwd=tmp_path, SOFTCHECK_SEDE="1", SOFTCHECK_UPDATE_GOLDEN="0", SOFTCHECK_SEED="1"
    )
    assert done.returncode == 0
    assert "SOFTCHECK_SEDE is no setting; did you mean 'SOFTCHECK_SEED'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    (tmp_path / "pyproject.toml").write_text("[tool.softcheck]\nsede = 1\n")
    done = softcheck("list", "formats", cwd=tmp_path)
    assert done.returncode == 2
    assert "no setting 'sede'; did you mean 'seed'" in done.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.softcheck]\nmax-slowdown = 0.1\ndifferences = true\n")
    assert softcheck("list", "formats", cwd=tmp_path).stderr == "", "settings of other commands are known"


def test_gradients_are_promised_by_every_command_that_names_variants(tmp_path):
    for name, command in leaves(cli):
        taken = {option for parameter in command.params for option in parameter.opts}
        assert ("--backward" in taken) == ("--declare" in taken), name
    for options, environment, promise in (
        (["--backward"], {}, "@backward=True"),
        (["--declare", "empty=False", "--no-backward"], {}, "@empty=False,backward=False"),
        ([], {"SOFTCHECK_BACKWARD": "1"}, "@backward=True"),
    ):
        done = softcheck(
            "report",
            "torch",
            *options,
            "--case",
            "ties/*",
            "--dtype",
            "fp16",
            "--no-probes",
            "--format",
            "json",
            "--device",
            "interpreter",
            cwd=tmp_path,
            **environment,
        )
        assert json.loads(done.stdout)["variants"][0]["name"] == f"torch{promise}", done.stderr


@pytest.mark.parametrize(
    ("command", "declared", "words"),
    [
        ("exhaust torch --columns 2", "max_columns=1", "it declares max_columns=1"),
        ("regimes torch", "layouts=contiguous,dtypes=bf16", "declares bfloat16, not float16"),
    ],
)
def test_promises_for_code_that_is_not_yours_hold_in_every_command(tmp_path, command, declared, words):
    options = ["--declare", declared, "--dtype", "fp16", "--device", "interpreter"]
    done = softcheck(*command.split(), *options, cwd=tmp_path)
    assert words in f"{done.stdout}{done.stderr}"
