"""The canonical JSON of a report: every other format is drawn from the same model.

JSON has no NaN and no infinity. Where a figure is one of them (an error in float64 ULPs may overflow float64), the
strings ``"nan"``, ``"inf"`` and ``"-inf"`` stand in the number's place, and ``load`` turns them back. Null always means
"not measured". Bit patterns are strings of hexadecimal digits.
"""

import math
from pathlib import Path
from typing import Any

import msgspec

from softcheck.cases.case import Case
from softcheck.errors import UsageError
from softcheck.facts import Facts, Sizes, Sweep, Where
from softcheck.report.model import SCHEMA_VERSION, Report, SpeedReport
from softcheck.report.output import PLAIN, Display
from softcheck.tracing.model import Trace


def render(report: msgspec.Struct, _display: Display = PLAIN) -> str:
    """Indented JSON, keys in the order of the model, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(_plain(report, without_defaults=True)), indent=2).decode() + "\n"


def load(path: str | Path) -> Report:
    """Read a report back from a file; raises UsageError as ``parse`` does, or where the file can't be read."""
    return parse(_read(path), source=str(path))


def load_any(path: str | Path) -> Report | SpeedReport:
    """Read what ``softcheck report`` or ``softcheck bench`` saved; raises UsageError as ``load`` does, and for a trace."""
    found = load_saved(path)
    if isinstance(found, Trace):
        raise UsageError(f"{str(path)!r} holds a trace, expected a report; softcheck render draws a trace")
    return found


def load_saved(path: str | Path) -> Report | SpeedReport | Trace:
    """Read what ``report``, ``bench`` or ``trace`` saved; raises UsageError as ``load`` does."""
    found: Report | SpeedReport | Trace = _parsed(_read(path), None, str(path))
    return found


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} can't be read ({error}); expected a file that --format json wrote") from None


def parse(data: bytes | str, *, source: str = "report") -> Report:
    """The report that ``render`` wrote; raises UsageError, which says where, for another version, an unknown field, or a wrong type."""
    report: Report = _parsed(data, Report, source)
    return report


def _parsed(data: bytes | str, model: Any, source: str) -> Any:
    """The result in a model; None stands for that of its kind."""
    try:
        found = msgspec.json.decode(data)
        _check_version(found, source)
        if model is None:
            model = {"speed": SpeedReport, "trace": Trace}.get(str(found.get("kind")), Report)
        # Lenient conversion is the only way to let "inf" stand for a float; _check_same refuses what else it lets through.
        report = msgspec.convert(found, model, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError) as error:
        raise UsageError(f"{source}: {error}; expected a report as --format json writes it") from None
    except RecursionError:
        raise UsageError(f"{source}: nested too deeply; expected a report as --format json writes it") from None
    _check_same(found, _plain(report), "$", source)
    return report


def _plain(value: Any, *, without_defaults: bool = False) -> Any:
    """The value in JSON's own types; without what facts leave open, if that is asked for."""
    match value:
        case Case():
            return msgspec.json.decode(msgspec.json.encode(value))
        case msgspec.Struct():
            defaults = (
                dict(zip(value.__struct_fields__[::-1], value.__struct_defaults__[::-1], strict=False))
                if without_defaults and isinstance(value, Facts | Where | Sweep | Sizes)
                else {}
            )
            given = {name: getattr(value, name) for name in value.__struct_fields__}
            return {
                name: _plain(each, without_defaults=without_defaults)
                for name, each in given.items()
                if name not in defaults or each != defaults[name]
            }
        case tuple():
            return [_plain(item, without_defaults=without_defaults) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case str():
            # A file name that is not valid UTF-8 reaches us with lone surrogates, which JSON can't hold.
            return str(value).encode("utf-8", "backslashreplace").decode()
        case _:
            return value


def _check_version(found: Any, source: str) -> None:
    if not isinstance(found, dict):
        raise UsageError(f"{source}: holds {_shown(found)}; expected an object with the fields of a report")
    version = found.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise UsageError(
            f"{source}: schema_version is {_shown(version)}, this softcheck reads {SCHEMA_VERSION}; "
            "make the report again or use the softcheck that wrote it"
        )


def _check_same(found: Any, read: Any, where: str, source: str) -> None:
    """Raises an error for the first value that was not read as it stands in the file; fields left to a default may be absent."""
    if isinstance(found, dict) and isinstance(read, dict):
        for name, value in found.items():
            if name not in read:
                raise UsageError(
                    f"{source}: unknown field {_shown(name)} at {where}; expected one of: {', '.join(read)}"
                )
            _check_same(value, read[name], f"{where}.{name}", source)
    elif isinstance(found, list) and isinstance(read, list) and len(found) == len(read):
        for i, (a, b) in enumerate(zip(found, read, strict=True)):
            _check_same(a, b, f"{where}[{i}]", source)
    elif isinstance(found, bool) is not isinstance(read, bool) or found != read:
        raise UsageError(f"{source}: {where} holds {_shown(found)}, expected {_shown(read)}")


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else text[:79] + "…"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what ``render`` writes, as strict as ``parse``: no object holds a field that its model does not have."""
    models, parts = msgspec.json.schema_components([Report, SpeedReport])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:softcheck:report:{SCHEMA_VERSION}",
        "title": f"softcheck report, schema version {SCHEMA_VERSION}",
        "anyOf": list(models),
        "$defs": _as_written(parts),
    }


def _as_written(part: Any) -> Any:
    """A part of msgspec's schema, with the strings that stand for NaN and infinities, and without unknown fields."""
    if isinstance(part, list):
        return [_as_written(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "number":
        return {"anyOf": [part, {"enum": ["nan", "inf", "-inf"]}]}
    closed = {"additionalProperties": False} if "properties" in part else {}
    return {name: _as_written(value) for name, value in part.items()} | closed
