"""Reports that run at once share the cores, and one that has ended takes none."""

import subprocess
import sys

from softcheck.run.cores import Share


def test_a_report_alone_has_all_cores(tmp_path):
    share = Share(tmp_path)
    assert share.of(16) == 16
    share.leave()
    assert list(tmp_path.iterdir()) == []


def test_four_reports_have_a_quarter_each_until_they_end(tmp_path):
    shares = [Share(tmp_path) for _ in range(4)]
    assert [share.of(16) for share in shares] == [4] * 4
    assert [share.of(2) for share in shares] == [1] * 4
    for share in shares[1:]:
        share.leave()
        share.leave()
    assert shares[0].of(16) == 16
    shares[0].leave()


def test_a_killed_report_is_not_counted(tmp_path):
    code = (
        "import os, pathlib, sys\nfrom softcheck.run.cores import Share\n"
        "share = Share(pathlib.Path(sys.argv[1]))\nos._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert len(list(tmp_path.iterdir())) == 1
    share = Share(tmp_path)
    assert share.reports() == 1
    share.leave()


def test_a_folder_that_cannot_be_made_counts_nobody_else(tmp_path):
    (tmp_path / "file").write_text("")
    share = Share(tmp_path / "file" / "below")
    assert share.of(8) == 8
    share.leave()
