"""A real Kafka broker on this machine: one node, loopback only, exits with its parent process."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.dev.processes import HOST, GuardedProcess, free_port, reason_of
from headwater.engine.launch import jar_store
from headwater.errors import Problem, SetupError
from headwater.errors.catalogue.environment import (
    BROKER_DIED,
    BROKER_DIR_UNWRITABLE,
    BROKER_START_FAILED,
)
from headwater.errors.catalogue.notices import BROKER_JARS_DOWNLOADING
from headwater.jars import BROKER
from headwater.spark.java import find_java

# Checks whether a broker responds, in the Kafka protocol, so that no client library is needed.

_QUESTION = struct.pack(">hhih9si", 3, 1, 1, 9, b"headwater", 0)
"""A Metadata request (3), version 1, from the client `headwater`, for no topics."""
_SECONDS = 2.0


def knows_itself(host: str, port: int) -> bool:
    """Whether the broker lists a broker on this port, so that it can serve clients."""
    try:
        with (
            socket.create_connection((host, port), timeout=_SECONDS) as connection,
            connection.makefile("rb") as answer,
        ):
            connection.sendall(struct.pack(">i", len(_QUESTION)) + _QUESTION)
            (size,) = struct.unpack(">i", answer.read(4))
            return port in _ports(answer.read(size))
    except (OSError, struct.error):
        return False


def _ports(answer: bytes) -> list[int]:
    """The ports of the brokers in a metadata response."""
    count, at = struct.unpack_from(">i", answer, 4)[0], 8
    ports = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at + 4)
        at += 6 + length
        port, rack = struct.unpack_from(">ih", answer, at)
        ports.append(port)
        at += 6 + max(rack, 0)
    return ports


# The settings of a single broker that is its own controller, on this machine only.

PLAIN = "PLAINTEXT"
_CONTROLLER = "CONTROLLER"


@dataclass(frozen=True)
class Listener:
    """An additional listener: its protocol (`SSL`, `SASL_PLAINTEXT`, `SASL_SSL`) and its own settings.

    `settings` have Kafka's names without the prefix, such as `ssl.keystore.location`,
    `sasl.enabled.mechanisms` or `plain.sasl.jaas.config`.
    """

    name: str
    protocol: str
    settings: Mapping[str, str] = field(default_factory=dict)


def server_properties(
    data: Path,
    ports: Mapping[str, int],
    controller_port: int,
    listeners: Sequence[Listener] = (),
    extra: Mapping[str, str] | None = None,
) -> str:
    """The text of `server.properties`; `ports` has one for the plain listener and one for each other."""
    ways = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    protocols = {PLAIN: PLAIN, _CONTROLLER: PLAIN, **{each.name: each.protocol for each in listeners}}
    settings = {
        "log.dirs": str(data),
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"{ways},{_CONTROLLER}://{HOST}:{controller_port}",
        "advertised.listeners": ways,
        "listener.security.protocol.map": ",".join(f"{name}:{way}" for name, way in protocols.items()),
        **{
            f"listener.name.{each.name.lower()}.{key}": value
            for each in listeners
            for key, value in each.settings.items()
        },
        **(extra or {}),
    }
    one_node = (_DATA / "server.properties").read_text(encoding="utf-8")
    # If a setting appears twice, Java uses the last one.
    return one_node + "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    """The text escaped for Java, which reads the file as Latin-1."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    units = escaped.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)


START_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_MEMORY = "512m"
_DATA = Path(__file__).parent


class Broker:
    """A broker with its data in a directory; port 0 selects a free port, which later starts keep."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
        notify: Callable[[Problem], None] = lambda problem: None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.folder = folder.absolute()
        self.log = self.folder / "broker.log"
        self._listeners = tuple(listeners)
        self._properties = dict(properties or {})
        self._notify = notify
        self._environ = environ
        self._controller_port = 0
        self._ports = {PLAIN: port, **{listener.name: 0 for listener in listeners}}
        self._process = GuardedProcess(self.log)

    @property
    def pid(self) -> int:
        """The process of the current or last start."""
        return self._process.pid

    @property
    def servers(self) -> str:
        """`host:port` of the plain listener."""
        return self.address(PLAIN)

    def address(self, listener: str) -> str:
        """`host:port` of a listener by its name."""
        return f"{HOST}:{self._ports[listener]}"

    @property
    def runs(self) -> bool:
        """Whether its process is running."""
        return self._process.runs

    def start(self) -> None:
        """Start the broker and wait until it responds; raises SetupError with the reason if it does not."""
        if self.runs:
            return
        java, class_path = self._java()
        self._claim_ports()
        settings = self._prepare(java, class_path)
        logging = f"-Dlog4j2.configurationFile={_DATA / 'log4j2.properties'}"
        options = [f"-Xmx{_MEMORY}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", logging]
        self._launch([java, *options, "-cp", class_path, "kafka.Kafka", str(settings)])
        self._wait_for_answer()

    def stop(self) -> None:
        """Shut it down gracefully."""
        self._process.end()

    def kill(self) -> None:
        """Kill it as `kill -9` does; the next start keeps its data and port."""
        if self.runs:
            os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def refuse_end(self) -> None:
        """Raises SetupError with the reason if the process has exited unexpectedly."""
        if not self.runs:
            raise SetupError(BROKER_DIED.at(reason=reason_of(self._process.output()), log=str(self.log)))

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _java(self) -> tuple[str, str]:
        """The Java executable and the class path of the broker, downloaded if needed."""
        java, store = find_java(self._environ).executable, jar_store(self._environ)
        lacking = sum(1 for artifact in BROKER if store.find(artifact) is None)
        if lacking:
            params = {"lacking": lacking, "all": len(BROKER), "folder": str(store.cache)}
            self._notify(BROKER_JARS_DOWNLOADING.at(None, **params))
        return str(java), os.pathsep.join(str(jar.path) for jar in store.take_all(BROKER))

    def _claim_ports(self) -> None:
        """Find all ports while the others are reserved, so that no two are the same."""
        with ExitStack() as reserved:
            for listener, port in self._ports.items():
                self._ports[listener] = free_port(port, reserved)
            self._controller_port = free_port(0, reserved)

    def _prepare(self, java: str, class_path: str) -> Path:
        """Write the settings and format a new data directory; returns the path of the settings."""
        data, settings = self.folder / "data", self.folder / "server.properties"
        text = server_properties(data, self._ports, self._controller_port, self._listeners, self._properties)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.open("ab").close()
            # It contains the passwords of listeners.
            settings.touch(mode=0o600)
            settings.write_text(text, encoding="utf-8")
        except OSError as error:
            problem = BROKER_DIR_UNWRITABLE.at(folder=str(self.folder), reason=error.strerror or str(error))
            raise SetupError(problem) from error
        if not (data / "meta.properties").exists():
            self._format(java, class_path, settings)
        return settings

    def _format(self, java: str, class_path: str, settings: Path) -> None:
        identity = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path, "kafka.tools.StorageTool"]
        command += ["format", "-t", f"h{identity[1:]}", "-c", str(settings)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        with self.log.open("a", encoding="utf-8") as log:
            log.write(done.stdout + done.stderr)
        if done.returncode != 0:
            raise self._not_started(done.stdout + done.stderr)

    def _launch(self, command: list[str]) -> None:
        if not self._process.launch(command):
            # Java or the log could not be opened; the system reports why.
            raise self._not_started(self._process.output())

    def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        try:
            while not knows_itself(HOST, self._ports[PLAIN]):
                if not self.runs or time.monotonic() > deadline:
                    raise self._not_started(self._process.output())
                time.sleep(_LOOK_SECONDS)
        except BaseException:
            self.kill()
            raise

    def _not_started(self, text: str) -> SetupError:
        problem = BROKER_START_FAILED.at(reason=reason_of(text), log=str(self.log))
        return SetupError(replace(problem, detail=text[-4000:]))
