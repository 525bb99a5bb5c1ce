"""The jars on this machine: from a given folder or the cache, else fetched; each by its checksum."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headwater.errors import Entry, EnvironmentProblem, Problem
from headwater.errors.catalogue.environment import JAR_CHANGED, JAR_NO_FOLDER, JAR_NOT_FETCHED, JAR_SENT
from headwater.values.processes import user_cache

# Which jars belong to which Spark line.
#
# Spark's resolver would also fetch what a connector's own description names; those descriptions differ
# between repositories, so every jar stands here by itself and nothing is fetched that does not.

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


# Fetching jars with the Ivy that comes with Spark: it knows the public repository and reads any other.

Fetch = Callable[[str, str, str, Path], str]
"""Fetches group, name, version into a folder; what it says is empty, or the reason of the failure."""
FetchMany = Callable[[Sequence[tuple[str, str, str]], Path], str]
"""Fetches many jars in one go; some may have come when it gives a reason."""

_SECONDS = 300
_SETTINGS = """<ivysettings>
  <settings defaultResolver="given"/>
  <resolvers><ibiblio name="given" m2compatible="true" root={root}/></resolvers>
</ivysettings>
"""
# Descriptions of modules are not read, so that only the jars themselves travel; their checksums are ours.
_MANY_SETTINGS = """<ivysettings>
  <settings defaultResolver="given"/>
  <resolvers><ibiblio name="given" m2compatible="true" usepoms="false" checksums=""{root}/></resolvers>
</ivysettings>
"""
_MANY = """<ivy-module version="2.0">
  <info organisation="headwater" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
_ONE_OF_MANY = '<dependency org={} name={} rev={} transitive="false" conf="default->default"/>'
_REASONS = ("not found", "Server access error", "UnknownHost", "timed out", "refused", "FAILED DOWNLOAD")


def ivy_fetch(java: Path, ivy: Path, repository: str = "") -> Fetch:
    """A way to fetch that runs Ivy once for each jar; without a repository, from the public one."""

    def fetch(group: str, name: str, version: str, folder: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="headwater-ivy-") as work:
            command = [str(java), "-jar", str(ivy), "-warn", "-cache", f"{work}/cache"]
            if repository:
                settings = Path(work, "settings.xml")
                settings.write_text(_SETTINGS.format(root=quoteattr(repository)), encoding="utf-8")
                command += ["-settings", str(settings)]
            command += ["-dependency", group, name, version, "-notransitive", "-types", "jar"]
            command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            return _run(command)

    return fetch


def ivy_fetch_many(java: Path, ivy: Path, repository: str = "") -> FetchMany:
    """A way to fetch that runs Ivy once for many jars."""

    def fetch(wanted: Sequence[tuple[str, str, str]], folder: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="headwater-ivy-") as work:
            root = f" root={quoteattr(repository)}" if repository else ""
            settings, module = Path(work, "settings.xml"), Path(work, "ivy.xml")
            settings.write_text(_MANY_SETTINGS.format(root=root), encoding="utf-8")
            lines = (_ONE_OF_MANY.format(*map(quoteattr, coordinates)) for coordinates in wanted)
            module.write_text(_MANY.format(dependencies="".join(lines)), encoding="utf-8")
            command = [str(java), "-jar", str(ivy), "-warn", "-cache", f"{work}/cache"]
            command += ["-settings", str(settings), "-ivy", str(module)]
            command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            return _run(command)

    return fetch


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} seconds"
    return "" if done.returncode == 0 else _reason(done.stdout + done.stderr)


def _reason(text: str) -> str:
    # A mirror's address may hold a password.
    shown = re.sub(r"//[^/\s]*@", "//***@", text)
    lines = [line.strip(" :\t") for line in shown.splitlines()]
    told = [line for line in lines if any(word in line for word in _REASONS)]
    return (told or [line for line in lines if line] or ["the resolver said nothing"])[0]


FOLDER = "HEADWATER_JARS"
REPOSITORY = "HEADWATER_REPOSITORY"


@dataclass(frozen=True)
class Taken:
    """A jar that is there, and where it came from: `folder`, `cache` or `repository`."""

    path: Path
    coordinates: str
    origin: str


@dataclass(frozen=True)
class JarStore:
    """Finds jars. A given folder is asked first and alone where there is no way to fetch."""

    cache: Path
    folder: Path | None = None
    fetch: Fetch | None = None
    """None: nothing is fetched, only looked for."""
    fetch_many: FetchMany | None = None
    """None: each jar is fetched by itself."""

    @classmethod
    def of(
        cls, environ: Mapping[str, str], fetch: Fetch | None = None, fetch_many: FetchMany | None = None
    ) -> JarStore:
        """The store that this machine's settings describe."""
        folder = Path(environ[FOLDER]).expanduser() if environ.get(FOLDER) else None
        if folder and not folder.is_dir():
            raise EnvironmentProblem(JAR_NO_FOLDER.at(setting=FOLDER, folder=str(folder)))
        return cls(user_cache(environ) / "jars", folder, fetch, fetch_many)

    def find(self, artifact: Artifact) -> Taken | None:
        """The first release that is on this machine; EnvironmentProblem for a wrong file."""
        for release in artifact.releases:
            for origin, place in (("folder", self.folder), ("cache", self.cache)):
                path = place / artifact.file_name(release) if place else None
                if path and path.is_file():
                    _refuse_changed(path, artifact, release)
                    return Taken(path, artifact.coordinates(release), origin)
        return None

    def take(self, artifact: Artifact) -> Taken:
        """The jar, fetched if need be; EnvironmentProblem with what to put where."""
        found = self.find(artifact)
        if found:
            return found
        reasons = []
        for release in artifact.releases:
            reason = self._fetched(artifact, release)
            if not reason:
                path = self.cache / artifact.file_name(release)
                return Taken(path, artifact.coordinates(release), "repository")
            reasons.append(f"{artifact.coordinates(release)}: {reason}")
        raise EnvironmentProblem(self.missing(artifact, reasons))

    def take_all(self, artifacts: Sequence[Artifact]) -> tuple[Taken, ...]:
        """Every jar, those that lack fetched together; EnvironmentProblem for the first that can't be had."""
        lacking = [artifact for artifact in artifacts if not self.find(artifact)]
        if len(lacking) > 1 and self.fetch_many is not None:
            self._fetch_together(lacking, self.fetch_many)
        # What did not come with the others is tried by itself, which tells the reason.
        return tuple(self.take(artifact) for artifact in artifacts)

    def _fetch_together(self, artifacts: Sequence[Artifact], fetch: FetchMany) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.cache) as folder:
            wanted = [(each.group, each.name, each.releases[0].version) for each in artifacts]
            fetch(wanted, Path(folder))
            for artifact in artifacts:
                fetched = Path(folder) / artifact.file_name(artifact.releases[0])
                if fetched.is_file():
                    _refuse_changed(fetched, artifact, artifact.releases[0], JAR_SENT)
                    os.replace(fetched, self.cache / fetched.name)

    def missing(self, artifact: Artifact, reasons: Iterable[str] = ()) -> Problem:
        """What to say of a jar that is not here."""
        names = " or ".join(artifact.file_name(release) for release in artifact.releases)
        return JAR_NOT_FETCHED.at(
            coordinates=" or ".join(artifact.coordinates(release) for release in artifact.releases),
            reason="; ".join(reasons) or "it was not looked for",
            file=names,
            folder=str(self.folder or self.cache),
            setting=REPOSITORY,
        )

    def _fetched(self, artifact: Artifact, release: Release) -> str:
        """Fetch a release into the cache; the reason if that can't be."""
        if self.fetch is None:
            return "nothing is fetched here"
        self.cache.mkdir(parents=True, exist_ok=True)
        # Beside its last place, so that a file appears there whole or not at all.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=self.cache) as folder:
            reason = self.fetch(artifact.group, artifact.name, release.version, Path(folder))
            fetched = Path(folder) / artifact.file_name(release)
            if reason or not fetched.is_file():
                return reason or "the repository sent no jar"
            _refuse_changed(fetched, artifact, release, JAR_SENT)
            os.replace(fetched, self.cache / artifact.file_name(release))
        return ""


def _refuse_changed(path: Path, artifact: Artifact, release: Release, entry: Entry = JAR_CHANGED) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != release.sha256:
        raise EnvironmentProblem(
            entry.at(
                path=str(path) if entry is JAR_CHANGED else path.name,
                coordinates=artifact.coordinates(release),
                found=found[:12],
                wanted=release.sha256[:12],
            )
        )


# The jars of a Kafka broker for development: a program of its own, never on Spark's class path.

# What kafka_2.13 and a writer of its log need to run, by exact version: nothing is resolved at run time.
_JARS = """
org.apache.kafka:kafka-clients:4.3.1
    52501b7b47510c66f898871adaf6d2968ab7246561d44ced43643a8a587f0b36
org.apache.kafka:kafka-coordinator-common:4.3.1
    66a86b8c89718216ffa72fe4e44b9d1bdf3472e4cb9200c36a0742a25febbdba
org.apache.kafka:kafka-group-coordinator:4.3.1
    4ab56d002e1624185c874199e9e0ffb243dbeb9f68b4d0cadf48ce2f617a1126
org.apache.kafka:kafka-group-coordinator-api:4.3.1
    d81bc1a3739ff6c9b21815baae00022306342a16d3d94e6a2621201b9980a30d
org.apache.kafka:kafka-metadata:4.3.1
    4d73a96c6474a4ebdd67a1cee14da1a94cfd6bb9e6e252685ba5667d8ab7f898
org.apache.kafka:kafka-raft:4.3.1
    46abbf89806dd22d848e997cdfb1431524cab4ec88e38a7d2806e20b24a70609
org.apache.kafka:kafka-server:4.3.1
    01d736599ec3b0cdbb0480c15219170b28cdae189785e7f0c6f1f26e528eaebc
org.apache.kafka:kafka-server-common:4.3.1
    d7c719f749579a399011f0df7414de8a78f10f074a6122caa550fdb141351575
org.apache.kafka:kafka-share-coordinator:4.3.1
    8ceeed7346127e652ea5c650b217890aaff14919f967d27fadce420745bd3066
org.apache.kafka:kafka-storage:4.3.1
    97e3facddd2914a58f28ec91ef35f8da69963eab3651196e97f487924f6dac98
org.apache.kafka:kafka-storage-api:4.3.1
    bc2b22639fa554494461d101d599e01bae840d97c4f46e18fdf3d2fe41a47098
org.apache.kafka:kafka-tools-api:4.3.1
    dcf6785742e0c8ab11a0fc09c62f1192e11e997dc629669a8db82aa40d933c31
org.apache.kafka:kafka-transaction-coordinator:4.3.1
    c64aaa2a88d8fd382c4800204872917686e542043c7916c9e8797d939d8eb313
org.apache.kafka:kafka_2.13:4.3.1
    b098abef5ff878e76f60cd6c559b9baa5663ccb1b55f2837558b22c329d32423
at.yawk.lz4:lz4-java:1.10.2
    252dabd586d22149a31661a8afc1a50747714eb1a298bd4a6e780c8c91a13866
com.dynatrace.hash4j:hash4j:0.22.0
    23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e
com.fasterxml.jackson.core:jackson-annotations:2.21
    53ca085f4a150f703f49e1aabd935bd03b43e1ea3d55d135438292af22cef56b
com.fasterxml.jackson.core:jackson-core:2.21.2
    12e8655b100267b44d0f14d01b1f5082a5105e616174dc4307be1a761e92407b
com.fasterxml.jackson.core:jackson-databind:2.21.2
    8c982f01f148d805f0aaac2339011244757e0df7c6ff8951f2fa3f433b8ed849
com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.21.2
    682f8c7977e02a42748426bf54946e32e52e2f80b84b6642801ab12bd541368a
com.fasterxml.jackson.dataformat:jackson-dataformat-yaml:2.21.2
    d25551812fa0c14f37cabaa9401e63eadcea42ce36311183af5622d5bc8a1bc7
com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2
    e581bbf3fc5622d16b57366dd41e10fc56921fb202879de2ef487f87dd9b30e7
com.github.ben-manes.caffeine:caffeine:3.2.0
    ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7
com.github.luben:zstd-jni:1.5.6-10
    b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df
com.google.re2j:re2j:1.8
    7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7
com.typesafe.scala-logging:scala-logging_2.13:3.9.6
    0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994
com.yammer.metrics:metrics-core:2.2.0
    6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c
commons-beanutils:commons-beanutils:1.11.0
    9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709
commons-collections:commons-collections:3.2.2
    eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8
commons-digester:commons-digester:2.1
    e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d
commons-logging:commons-logging:1.3.5
    6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4
commons-validator:commons-validator:1.10.1
    ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa
net.sf.jopt-simple:jopt-simple:5.0.4
    df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28
net.sourceforge.argparse4j:argparse4j:0.7.0
    65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56
org.apache.logging.log4j:log4j-api:2.25.4
    c4b642a7f047275215de117e0e3847eb2c7711d84a0aa7433e7b3c096daf341d
org.apache.logging.log4j:log4j-core:2.25.4
    10fee2c0485d54fa44ee75d314f6295508f7b932281873db61a91b88073200e6
org.apache.logging.log4j:log4j-slf4j-impl:2.25.4
    7ac68a0afcc83d54f48d116d79370a43f0a2a6b71b5c1d6dda943bb6a95ddbaa
org.bitbucket.b_c:jose4j:0.9.6
    7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef
org.hdrhistogram:HdrHistogram:2.2.2
    22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8
org.jspecify:jspecify:1.0.0
    1fad6e6be7557781e4d33729d49ae1cdc8fdda6fe477bb0cc68ce351eafdfbab
org.pcollections:pcollections:4.0.2
    2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef
org.scala-lang:scala-library:2.13.18
    4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0
org.scala-lang:scala-reflect:2.13.18
    6935ff1982b2ac93d695f15aa66921be2f602921277afe002f018fd8c7d6e29b
org.slf4j:slf4j-api:1.7.36
    d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0
org.xerial.snappy:snappy-java:1.1.10.7
    4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36
org.yaml:snakeyaml:2.5
    e6682acf1ace77508ef13649cbf4f8d09d2cf5457bdb61d25ffb6ac0233d78dd
"""


def _artifact(coordinates: str, checksum: str) -> Artifact:
    group, name, version = coordinates.split(":")
    return Artifact(group, name, (Release(version, checksum),))


_WORDS = _JARS.split()
BROKER: tuple[Artifact, ...] = tuple(map(_artifact, _WORDS[::2], _WORDS[1::2]))
