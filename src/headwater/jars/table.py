"""Which jars belong to which Spark line.

Spark's resolver would also fetch what a connector's own description names; those descriptions differ
between repositories, so every jar stands here by itself and nothing is fetched that does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# One jar of the table: its coordinates and the releases that fit, each with its checksum.


@dataclass(frozen=True)
class Release:
    """A version that was tried, and the SHA-256 of its jar."""

    version: str
    sha256: str


@dataclass(frozen=True)
class Artifact:
    """A jar of a Maven repository. The releases stand in order: the first that can be had is taken."""

    group: str
    name: str
    releases: tuple[Release, ...]

    def coordinates(self, release: Release) -> str:
        return f"{self.group}:{self.name}:{release.version}"

    def file_name(self, release: Release) -> str:
        return f"{self.name}-{release.version}.jar"


_SCALA = "2.13"


def _spark(name: str, *releases: Release) -> Artifact:
    return Artifact("org.apache.spark", f"{name}_{_SCALA}", releases)


_AVRO = _spark(
    "spark-avro", Release("4.1.1", "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d")
)
_KAFKA = (
    _spark(
        "spark-sql-kafka-0-10",
        Release("4.1.3", "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6"),
    ),
    # Not every repository has the one of the connector's own version; this one works with it.
    _spark(
        "spark-token-provider-kafka-0-10",
        Release("4.0.0", "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"),
    ),
    Artifact(
        "org.apache.kafka",
        "kafka-clients",
        (Release("3.9.1", "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),),
    ),
    Artifact(
        "org.apache.commons",
        "commons-pool2",
        (
            Release("2.12.1", "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef"),
            Release("2.12.0", "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b"),
        ),
    ),
)
_DELTA = (
    Artifact(
        "io.delta",
        f"delta-spark_4.1_{_SCALA}",
        (Release("4.4.0", "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"),),
    ),
    Artifact(
        "io.delta",
        "delta-storage",
        (Release("4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),),
    ),
)
_ICEBERG = Artifact(
    "org.apache.iceberg",
    f"iceberg-spark-runtime-4.1_{_SCALA}",
    (Release("1.12.0", "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"),),
)

TABLE: Mapping[str, Mapping[str, tuple[Artifact, ...]]] = {
    "4.1": {"avro": (_AVRO,), "kafka": _KAFKA, "delta": _DELTA, "iceberg": (_ICEBERG,)},
}


def artifacts(need: str, spark_version: str) -> tuple[Artifact, ...] | None:
    """The jars of one need for a Spark version; None where the table has none."""
    return _line(spark_version).get(need)


def needs(spark_version: str) -> tuple[str, ...]:
    """Everything that the table has for a Spark version."""
    return tuple(_line(spark_version))


def _line(spark_version: str) -> Mapping[str, tuple[Artifact, ...]]:
    return TABLE.get(".".join(spark_version.split(".")[:2]), {})
