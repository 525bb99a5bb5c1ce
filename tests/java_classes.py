"""Jars made on the spot: Java sources compiled against Spark's own jars."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest


def make_jar(jar: Path, sources: dict[str, str]) -> Path:
    """Compile the classes, named by their file (`GeoMean.java`), into one jar; skips without javac."""
    compiler, packer = shutil.which("javac"), shutil.which("jar")
    if compiler is None or packer is None:
        pytest.skip("there is no Java compiler (javac) on the PATH; on Debian: apt-get install default-jdk")
    work = jar.parent / f".{jar.stem}"
    written = [work / name for name in sources]
    for file in written:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(sources[file.name], encoding="utf-8")
    spark = Path(pyspark.__path__[0], "jars")
    compile_ = [compiler, "-proc:none", "-cp", f"{spark}/*", "-d", str(work / "classes"), *map(str, written)]
    subprocess.run(compile_, check=True, capture_output=True)
    subprocess.run([packer, "cf", str(jar), "-C", str(work / "classes"), "."], check=True)
    return jar


GEO_MEAN = """
package example;

import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.expressions.Aggregator;

public class GeoMean extends Aggregator<Double, double[], Double> {
  public double[] zero() { return new double[] {0, 0}; }
  public double[] reduce(double[] sum, Double x) {
    return x == null ? sum : new double[] {sum[0] + Math.log(x), sum[1] + 1};
  }
  public double[] merge(double[] a, double[] b) { return new double[] {a[0] + b[0], a[1] + b[1]}; }
  public Double finish(double[] sum) { return sum[1] == 0 ? null : Math.exp(sum[0] / sum[1]); }
  public Encoder<double[]> bufferEncoder() { return Encoders.kryo(double[].class); }
  public Encoder<Double> outputEncoder() { return Encoders.DOUBLE(); }
}
"""
"""The geometric mean, as an aggregate function."""

LENGTH = """
package example;

import org.apache.spark.sql.api.java.UDF1;

public class Length implements UDF1<String, Integer> {
  public Integer call(String text) { return text == null ? null : text.length(); }
}
"""
"""The length of a text, as a plain function."""
