"""Jars are fetched with Spark's own Ivy, from any repository, and are on the class path of a new JVM."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from headwater.engine.launch import artifacts_of, jar_store
from headwater.jars import Artifact, JarStore, Release
from headwater.jars.cache import ivy_fetch
from headwater.spark.java import find_java
from tests.pipelines import rows_of, with_avro
from tests.processes import headwater

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>birds</artifactId><version>1.0</version></project>"""


@pytest.mark.feature("B11", part="from a given repository")
def test_a_jar_comes_from_a_given_repository(tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "org" / "example" / "birds" / "1.0"
    folder.mkdir(parents=True)
    (folder / "birds-1.0.pom").write_text(POM, encoding="utf-8")
    (folder / "birds-1.0.jar").write_bytes(b"a jar")
    (ivy,) = Path(pyspark.__path__[0], "jars").glob("ivy-*.jar")
    fetch = ivy_fetch(find_java().executable, ivy, (tmp_path / "repository").as_uri())
    releases = (Release("2.0", "0" * 64), Release("1.0", hashlib.sha256(b"a jar").hexdigest()))

    taken = JarStore(tmp_path / "cache", fetch=fetch).take(Artifact("org.example", "birds", releases))

    assert (taken.coordinates, taken.path.read_bytes()) == ("org.example:birds:1.0", b"a jar")


AVRO = """
name: copies
sources:
  birds: {connector: files, path: in, format: text}
sinks:
  birds: {reads: birds, connector: files, path: out, format: avro}
"""


@pytest.mark.feature("B11")
def test_without_a_network_the_message_says_which_file_to_put_where_and_then_it_works(
    spark: SparkSession, tmp_path: Path
) -> None:
    (artifact,) = artifacts_of("avro")
    jar = jar_store().take(artifact).path
    given = tmp_path / "jars"
    given.mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("owl\n", encoding="utf-8")
    (tmp_path / "p.yml").write_text(AVRO, encoding="utf-8")
    environ = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HEADWATER_JARS": str(given),
        "HEADWATER_REPOSITORY": (tmp_path / "no_repository").as_uri(),
    }

    with headwater(tmp_path, "run", "p.yml", "--until-idle", **environ) as refused:
        assert refused.wait() == 5
    assert "HW-JAR-DOWNLOAD-FAILED" in refused.stderr
    assert "org.apache.spark:spark-avro_2.13:" in refused.stderr
    assert f"copy {jar.name} to {given}" in refused.stderr
    with headwater(tmp_path, "doctor", "--jars", "--json", **environ) as doctor:
        assert doctor.wait() == 0
    (told,) = [each for each in json.loads(doctor.stdout)["checks"] if each["name"] == "jar for avro"]
    assert (told["status"], jar.name in told["hint"]) == ("warning", True)

    shutil.copy(jar, given)
    with headwater(tmp_path, "run", "p.yml", "--until-idle", **environ) as done:
        assert done.wait() == 0, done.told
    assert len(list((tmp_path / "out").glob("*.avro"))) == 1
    with_avro(spark)
    assert rows_of(spark, tmp_path / "out", "avro") == {("owl",): 1}
