"""Destination of a report: checked before the run, written whole or not at all, and drawn for its capabilities."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from softcheck.errors import UsageError
from softcheck.report import output


class Stream(io.StringIO):
    """Standard output that is, or is not, a terminal."""

    def __init__(self, *, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "color"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (False, {"FORCE_COLOR": ""}, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_color(monkeypatch, terminal, environment, color):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Stream(terminal=terminal))
    assert output.display_of("-").color is color


def test_only_a_terminal_has_a_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "97")
    monkeypatch.setattr(sys, "stdout", Stream(terminal=True))
    assert output.display_of("-").width == 97
    assert output.display_of("report.txt") == output.PLAIN
    monkeypatch.setattr(sys, "stdout", Stream(terminal=False))
    assert output.display_of("-").width is None


def test_checking_leaves_no_trace(tmp_path):
    existing = tmp_path / "report.json"
    existing.write_text("old")
    output.check_writable(str(existing))
    output.check_writable(str(tmp_path / "new.json"))
    output.check_writable("-")
    assert existing.read_text() == "old"
    assert list(tmp_path.iterdir()) == [existing]


def test_a_directory_or_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"is a directory; expected a file, such as '.*report\.json'"):
        output.check_writable(str(tmp_path))
    with pytest.raises(UsageError, match=r"there is no folder '.*absent'; make it"):
        output.check_writable(str(tmp_path / "absent" / "report.json"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="there is no folder"):
        output.check_writable(str(tmp_path / "file" / "report.json"))
    with pytest.raises(UsageError, match="not a usable path"):
        output.check_writable("nul\0byte")


def test_a_folder_that_refuses_files_is_found_before_the_run(tmp_path, monkeypatch):
    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    # Permissions don't bind the superuser, so the refusal is planted.
    monkeypatch.setattr(output.tempfile, "TemporaryFile", refuse)
    with pytest.raises(UsageError, match=r"no file can be made in .* \(Permission denied\)"):
        output.check_writable(str(tmp_path / "report.json"))


def test_a_read_only_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_text("old")
    monkeypatch.setattr(output.os, "access", lambda target, mode: not (Path(target) == path and mode == os.W_OK))
    with pytest.raises(UsageError, match="may not be written"):
        output.check_writable(str(path))


def test_a_file_is_replaced_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("old")
    path.chmod(0o640)
    output.write("≥ 0.501\n", str(path))
    assert path.read_bytes() == "≥ 0.501\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_gets_ordinary_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        output.write("text", str(tmp_path / "new"))
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    path.write_text("old")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        output.write("new", str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    output.write("new", str(link))
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        output.check_writable(str(pipe))
        output.write("text", str(pipe))
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_standard_output_that_lacks_the_characters_gets_escapes():
    code = "from softcheck.report.output import write; write('≥ 1 \\udcff\\n', '-')"
    for encoding, expected in (("ascii", b"\\u2265 1 \\udcff\n"), ("utf-8", "≥ 1 \\udcff\n".encode())):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONIOENCODING": encoding},
            capture_output=True,
            check=True,
        )
        assert done.stdout == expected


def test_listing_formats_imports_neither_torch_nor_rich():
    code = (
        "import sys, softcheck.report.formats, softcheck.report.output;"
        "print([m for m in ('torch', 'triton', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_rendering_needs_no_torch():
    code = (
        "import sys; from importlib import import_module; from softcheck.report import formats;"
        "[import_module(place.partition(':')[0]) for place in formats.FORMATS.values()];"
        "print([m for m in ('torch', 'triton') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
