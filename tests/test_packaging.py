"""Contents of the source distribution and the wheel, and their page on an index. Builds both, without a network."""

import email
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling import build

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return folder / build.build_sdist(str(folder)), folder / build.build_wheel(str(folder))


def test_the_source_distribution_holds_what_a_user_reads_and_no_results(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "SECURITY.md", "CONTRIBUTING.md", "LICENSE", "examples/declared.py"} <= names
    assert not [name for name in names if name.startswith(("results", "benchmarks"))]


def test_both_packages_say_that_they_are_typed(built):
    with zipfile.ZipFile(built[1]) as archive:
        assert {"softcheck/py.typed", "oracles/py.typed"} <= set(archive.namelist())


def test_the_wheel_holds_all_that_a_page_is_made_of(built):
    folder = ROOT / "softcheck" / "report" / "page"
    needed = {
        path.relative_to(ROOT).as_posix() for path in folder.rglob("*") if path.suffix in {".html", ".css", ".js"}
    }
    assert {path.rpartition(".")[2] for path in needed} == {"html", "css", "js"}
    with zipfile.ZipFile(built[1]) as archive:
        assert needed <= set(archive.namelist())


def test_no_link_of_the_metadata_needs_a_file_beside_it(built):
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = email.message_from_string(archive.read(name).decode("utf-8"))
    text = metadata.get_payload()
    assert text.startswith("# softcheck")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme) > len(text) > 0.8 * len(readme)
    assert "Your first bug in five minutes" in text
    assert "docs/design.md" in text
