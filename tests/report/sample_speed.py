"""Made-up speed results that the tests draw and compare."""

import msgspec
from sample_reports import ENVIRONMENT

from softcheck.report.model import SpeedReport
from softcheck.report.speed import means, shape_speed
from softcheck.speed.samples import Alarm, Sampled, ShapeSamples
from softcheck.variants.declaration import Declaration, Traffic

GPU = msgspec.structs.replace(
    ENVIRONMENT, backend="cuda", device="NVIDIA H200", driver="580.1", command="softcheck bench --sweep columns"
)
DECLARATIONS = {
    "one_block": Declaration(traffic=Traffic(reads=1, writes=1)),
    "eager": Declaration(traffic=Traffic(reads=5, writes=3, row_reads=2, row_writes=2)),
}
ROUNDS = 20


def around(seconds):
    """Twenty rounds within 0.2 % of a figure."""
    return tuple(seconds * (1 + 0.001 * (-1) ** i) for i in range(ROUNDS))


def samples(rows=4096, columns=1024, dtype="float16", *, slower=1.0, ulp=0.501, alarms=()):
    unit = 2 * rows * columns * 2 / 4e12
    return ShapeSamples(
        dtype=dtype,
        rows=rows,
        columns=columns,
        variants=(
            Sampled(name="torch", seconds=around(2 * unit), max_ulp=0.5),
            Sampled(
                name="one_block",
                seconds=around(1.25 * unit * slower),
                launch_seconds=around(9 * unit),
                method="graph",
                calls_per_span=32,
                max_ulp=ulp,
            ),
            Sampled(name="eager", seconds=around(5 * unit), max_ulp=7.1, notes=("no CUDA graph could be made of it",)),
            Sampled(
                name="wrong|`one`", reason="the output of a timed call is wrong: 7 rows were not those of its input"
            ),
        ),
        copy=Sampled(name="\0copy", seconds=around(unit)),
        torch=Sampled(name="\0torch", seconds=around(2 * unit)),
        cache="cold",
        stopped="precise",
        alarms=tuple(alarms),
        clock_mhz=1980,
    )


def speed_report(*shapes, reference="torch", environment=GPU):
    drawn = tuple(shape_speed(s, DECLARATIONS, reference) for s in shapes)
    return SpeedReport(environment=environment, reference=reference, shapes=drawn, means=means(drawn), seconds=12.5)


SWEEP = speed_report(
    samples(columns=256),
    samples(columns=1024, alarms=[Alarm("throttled", "the device was throttled in 50% of the rounds (power cap)")]),
    samples(columns=4096),
)
