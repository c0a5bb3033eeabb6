"""The JSON Schema of reports: the saved file is current, saved results keep it, and what the reader refuses breaks it."""

import json
import os
from pathlib import Path

import jsonschema
import pytest
from sample_reports import INTERPRETED

from softcheck.errors import UsageError
from softcheck.report.json_format import parse, render, schema

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "docs" / "report.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(schema())


def saved_reports():
    """Files of results that say which version of the schema they have."""
    return [
        file for file in sorted((ROOT / "results").rglob("*.json")) if '"schema_version"' in file.read_text()[:2000]
    ]


def test_the_saved_schema_is_current_and_valid():
    text = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("SOFTCHECK_UPDATE_GOLDEN"):
        SAVED.write_text(text, encoding="utf-8")
    assert text == SAVED.read_text(encoding="utf-8"), (
        "run: SOFTCHECK_UPDATE_GOLDEN=1 pytest tests/report/test_schema.py"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("file", saved_reports(), ids=lambda file: str(file.relative_to(ROOT / "results")))
def test_saved_results_keep_the_schema(file):
    VALIDATOR.validate(json.loads(file.read_text(encoding="utf-8")))


def test_reports_and_benchmarks_are_among_the_saved_results():
    kinds = {json.loads(file.read_text(encoding="utf-8")).get("kind", "report") for file in saved_reports()}
    assert kinds == {"report", "speed"}


def test_searches_of_earlier_versions_are_read_and_written_again():
    search = {"name": "torch", "dtype": "float16", "columns": 8, "objective": "ulp", "found": "inf", "witness": None}
    old = json.loads(render(INTERPRETED)) | {"searches": [search]}
    VALIDATOR.validate(old)
    assert json.loads(render(parse(json.dumps(old)))) == old


def changed(**fields):
    """A report with other values of the first variant's fields."""
    found = json.loads(render(INTERPRETED))
    found["variants"][0] |= fields
    return found


@pytest.mark.parametrize(
    "report",
    [
        changed(max_ulp="infinite"),
        changed(verdict="perfect"),
        changed(elements=None),
        changed(colour="red"),
        json.loads(render(INTERPRETED)) | {"schema_version": 2},
        {name: value for name, value in json.loads(render(INTERPRETED)).items() if name != "environment"},
    ],
)
def test_what_the_reader_refuses_breaks_the_schema(report):
    with pytest.raises(UsageError):
        parse(json.dumps(report))
    assert not VALIDATOR.is_valid(report)


@pytest.mark.parametrize("ulp", ["inf", "nan", "-inf", 0.5, None])
def test_figures_that_are_no_numbers_keep_the_schema(ulp):
    parse(json.dumps(changed(max_ulp=ulp)))
    VALIDATOR.validate(changed(max_ulp=ulp))
