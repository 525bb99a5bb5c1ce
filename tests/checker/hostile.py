"""A directory that does its worst when its script is checked; each deed leaves a file in `effects`."""

from __future__ import annotations

import os
from pathlib import Path

MARK = "HEADWATER_TEST_MARK"

ON_IMPORT = """
import os
open(os.path.join(os.environ["EFFECTS"], "{name}"), "w").write("imported")
"""
OTHER_JOB = """
import os
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
open(os.path.join(os.environ["EFFECTS"], "other_job"), "w").write("ran")
"""
JOB = '''
import _posixsubprocess
import atexit
import ctypes
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

EFFECTS = os.environ["EFFECTS"]
HERE = os.path.dirname(os.path.abspath(__file__))


def leave(name):
    with open(os.path.join(EFFECTS, name), "a") as effect:
        effect.write("x")


def attempt(name, do):
    try:
        do(name)
    except (Exception, SystemExit) as error:
        print(name, type(error).__name__)


def daemon(name):
    """A process that leaves its group, its session and its parent, and ignores what asks it to end."""
    libc = ctypes.CDLL(None)
    if libc.fork() == 0:
        os.setsid()
        if libc.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                leave(name)
                time.sleep(0.05)
        os._exit(0)


def spawn_directly(name):
    shell = f"setsid sleep 1000 & touch {EFFECTS}/{name}"
    _posixsubprocess.fork_exec(
        [b"sh", b"-c", shell.encode()], [b"/bin/sh"], True, (), None, None,
        -1, -1, -1, -1, -1, -1, *os.pipe(), False, False, -1, None, None, None, -1, None, False,
    )


def in_a_pool(name, method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        pool.apply(leave, (name,))


def forked(name):
    if os.fork() == 0:
        leave(name)
        os._exit(0)


def into_a_database(name):
    with sqlite3.connect(os.path.join(HERE, "rows.db")) as rows:
        rows.executemany("INSERT INTO given VALUES (?)", [(1,), (2,)])


def over_the_network(name):
    with socket.create_connection(("127.0.0.1", int(os.environ["SERVER"])), 5) as server:
        server.sendall(b"written")


def over_a_socket_file(name):
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ["SOCKET"])
        server.sendall(b"written")


def rename_and_remove(name):
    shutil.copy(__file__, os.path.join(EFFECTS, name))
    os.rename(os.path.join(HERE, "kept.txt"), os.path.join(HERE, "lost.txt"))
    shutil.rmtree(os.path.join(HERE, "kept"))


def forever(name):
    while True:
        leave(name)
        time.sleep(0.05)


atexit.register(leave, "atexit")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt("open", leave)
attempt("pathlib", lambda name: pathlib.Path(EFFECTS, name).write_text("x"))
attempt("shutil", rename_and_remove)
attempt("sqlite", into_a_database)
attempt("daemon", daemon)
attempt("directly", spawn_directly)
attempt("fork", forked)
for method in ("fork", "spawn", "forkserver"):
    attempt(f"pool_{method}", lambda name: in_a_pool(name, method))
attempt("network", over_the_network)
attempt("socket_file", over_a_socket_file)
attempt("submit", lambda name: subprocess.run([sys.executable, "other_job.py"], check=True))  # process
attempt("touch", lambda name: subprocess.run(["touch", f"{EFFECTS}/{name}"], check=True))  # process
attempt("system", lambda name: os.system(f"touch {EFFECTS}/{name}"))  # process
attempt("exec", lambda name: os.execv("/usr/bin/touch", ["touch", f"{EFFECTS}/{name}"]))
attempt("libc", lambda name: ctypes.CDLL(None).system(f"setsid sleep 1000 & touch {EFFECTS}/{name}".encode()))
threading.Thread(target=forever, args=("thread",), daemon=True).start()

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
java = spark._jvm.java
attempt("java", lambda name: java.io.FileOutputStream(f"{EFFECTS}/{name}").close())
attempt("java_process", lambda name: java.lang.Runtime.getRuntime().exec("setsid sleep 1000"))
path = spark._jvm.org.apache.hadoop.fs.Path(f"file://{EFFECTS}/hadoop")
attempt("hadoop", lambda name: path.getFileSystem(spark._jsc.hadoopConfiguration()).create(path).close())
attempt("udf", lambda name: spark.range(1).select(udf(leave)(udf(lambda i: name)("id"))).collect())
attempt("unknown", lambda name: spark.readStream.format("no_such_format").load())
rates = spark.readStream.format("rate").load()
rates.writeStream.format("no_such_format").start()
rates.writeStream.format("memory").queryName("judged").start().awaitTermination()
real = rates._jdf.writeStream().format("parquet").option("checkpointLocation", f"{EFFECTS}/checkpoint")
attempt("real", lambda name: real.start(f"{EFFECTS}/{name}"))
print("came to the end")
'''


def make(folder: Path) -> dict[str, str]:
    """The hostile directory, and the environment in which its script is checked."""
    effects = folder / "effects"
    effects.mkdir()
    for name in ("pyspark_job", "sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text(ON_IMPORT.format(name=name), encoding="utf-8")
    (folder / "other_job.py").write_text(OTHER_JOB, encoding="utf-8")
    (folder / "job.py").write_text(JOB.lstrip("\n"), encoding="utf-8")
    (folder / "kept").mkdir()
    for name in ("kept.txt", "kept/too.txt"):
        (folder / name).write_text("kept", encoding="utf-8")
    return {"EFFECTS": str(effects), "PYTHONPATH": str(folder), MARK: str(folder)}


def marked_processes(folder: Path) -> set[int]:
    """The processes, other than this one, that have the mark in their environment."""
    mark = f"{MARK}={folder}".encode()
    found = set()
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in each.read_bytes().split(b"\0"):
                found.add(int(each.parent.name))
        except OSError:
            continue
    return found - {os.getpid()}
