"""The reader of the README is itself tested: what it overlooks, nobody checks."""

import pytest
import readme_blocks

TEXT = """\
# Title

```console
$ pip install -c constraints.txt -e . && softcheck report --dtype float16
interpreter: ...
$ softcheck report \\
    --dtype float16
```

<!-- checked: softcheck list --format json -->

```console
$ softcheck list --format json
{}
```

```python
# $ softcheck not a command
```

~~~~
$ softcheck neither
~~~~
"""


def test_commands_stand_in_console_blocks_after_a_dollar():
    assert readme_blocks.commands(TEXT) == [
        "pip install -c constraints.txt -e . && softcheck report --dtype float16",
        "softcheck report --dtype float16",
        "softcheck list --format json",
    ]
    assert readme_blocks.install_commands(TEXT) == readme_blocks.commands(TEXT)[:1]


def test_a_checked_block_knows_its_command_and_its_output():
    found = readme_blocks.blocks(TEXT)
    assert [block.checked for block in found] == [None, "softcheck list --format json", None, None]
    assert found[1].output == "{}\n"
    assert found[1].line == 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ a\n", "line 1: the fence is never closed"),
        ("<!-- checked: softcheck list -->\nprose\n```\nx\n```\n", "line 1: no fenced block follows"),
        ("text\n<!-- checked: softcheck list -->\n", "line 2: no fenced block follows"),
    ],
)
def test_what_would_be_overlooked_is_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        readme_blocks.blocks(text)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("softcheck report", [["report"]]),
        ("pip install . && softcheck report --dtype float16", [["report", "--dtype", "float16"]]),
        ("NO_COLOR=1 softcheck list > out.txt 2>&1", [["list"]]),
        ("softcheck list --format json > out.json", [["list", "--format", "json"]]),
        ("softcheck list | head; softcheck corpus list", [["list"], ["corpus", "list"]]),
        ("softcheck report --case 'edge/*' # comment", [["report", "--case", "edge/*"]]),
        ("pytest -m accuracy", []),
        ("python -m softcheck.cli.main list", []),
    ],
)
def test_invocations_are_found_in_shell_lines(command, expected):
    assert readme_blocks.invocations(command) == expected


def test_fewer_than_two_install_commands_is_a_failure(tmp_path, monkeypatch, capsys):
    path = tmp_path / "README.md"
    path.write_text(TEXT)
    monkeypatch.setattr("sys.argv", ["readme_blocks.py", str(path)])
    assert readme_blocks.main() == 1
    assert "expected two" in capsys.readouterr().err
    path.write_text(TEXT + "\n```console\n$ pip install -c constraints.txt -e '.[test]' && pytest\n```\n")
    assert readme_blocks.main() == 0
    assert capsys.readouterr().out.splitlines()[1] == "pip install -c constraints.txt -e '.[test]' && pytest"
