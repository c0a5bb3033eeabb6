"""The environment of a run: device, software, seed, command, and where its time went."""

from collections.abc import Mapping

import msgspec

from softcheck.report import content, figures
from softcheck.report.model import Report, SpeedReport


def contents(result: Report | SpeedReport) -> Mapping[str, object] | None:
    """The fields of the environment by name, and the stages of a report with their times."""
    said = msgspec.structs.asdict(result.environment)
    command = content.command(said.pop("command"))
    fields = [
        (name.replace("_", " "), content.one_line(str(value))) for name, value in said.items() if value is not None
    ]
    stages = result.stages if isinstance(result, Report) else ()
    return {
        "fields": [*fields, ("time in all", figures.duration(result.seconds))],
        "command": command,
        "stages": [[content.one_line(stage.name), figures.duration(stage.seconds)] for stage in stages],
    }
