"""What the machine, Java, Python or a package can lack."""

from headwater.errors.problems import Entry

JAVA_MISSING = Entry(
    "No Java was found that Spark can use.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21.",
)
JAVA_NOT_FOUND = Entry(
    "{origin} names {path}, which holds no bin/java that can be run.",
    "Set JAVA_HOME to the folder of a Java 17 or 21, or unset it.",
)
JAVA_UNSUPPORTED = Entry(
    "{origin} gives Java {version} ({path}); {why}.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21.",
)
JAVA_VERSION_UNREADABLE = Entry(
    "The Java of {origin} ({path}) does not say which version it is.",
    "Run `{path} -version` to see why, or set JAVA_HOME to a Java 17 or 21.",
)
JVM_START_FAILED = Entry(
    "Spark's Java process ended before it was ready: {reason}.",
    "Read {log}, correct the setting that it names and run again; `headwater doctor` examines the machine.",
)
SPARK_START_FAILED = Entry(
    "Spark did not start on master {master}: {reason}.",
    "Read {log}, correct the setting `spark.master` or what the sentence names, and run again.",
)
SUBMIT_ARGS_INVALID = Entry(
    "The environment variable PYSPARK_SUBMIT_ARGS is `{text}` and can't be read: {reason}.",
    "Correct its quotes or unset it.",
)
PYTHON_UNSUPPORTED = Entry(
    "This is Python {version}; Headwater needs {oldest} or newer.",
    "Make a virtual environment with a newer Python and install Headwater there.",
)
PACKAGE_MISSING = Entry(
    "The Python package {package} is not installed.", "Run `pip install '{package}{supported}'`."
)
PACKAGE_UNSUPPORTED = Entry(
    "{package} {version} is installed; supported is {package}{supported}.",
    "Run `pip install '{package}{supported}'`.",
)
SPARK_CLIENT_ONLY = Entry(
    "The installed PySpark has no Spark in it: {path} is missing.",
    "Run `pip install 'pyspark{supported}'`, or set SPARK_HOME to a full Spark of the same version.",
)
SPARK_HOME_MISMATCH = Entry(
    "SPARK_HOME ({path}) holds Spark {found}, but PySpark is {version}.",
    "Unset SPARK_HOME to use the Spark that PySpark brings, or install `pyspark=={found}`.",
)
SPARK_PART_MISSING = Entry(
    "Spark {version} lacks what Headwater needs to {purpose}: {lost}. Not found: {parts}.",
    "Install a version that Headwater was tested with: `pip install 'pyspark{supported}'`.",
)
SPARK_HOME_INVALID = Entry(
    "SPARK_HOME is {path}, which holds no Spark.", "Unset SPARK_HOME to use the Spark that PySpark brings."
)
MEMORY_LOW = Entry(
    "{free} of {total} GB memory are free; Spark needs about {wanted} GB on one machine.",
    "Close other programs, or lower `spark.driver.memory` under `spark:` in the pipeline.",
)
CORES_LOW = Entry(
    "Only {cores} core can be used; Spark will work on one partition at a time.",
    "Give the container or virtual machine two cores or more; `continuous` and `real time` need them.",
)
RUN_DIR_UNWRITABLE = Entry(
    "The run folder {path} can't be written: {reason}.",
    "Set `folder:` in the pipeline to a folder that you may write.",
)
RUN_DIR_ON_NETWORK = Entry(
    "The run folder {path} is on a network file system ({kind}), where locks and renames are not reliable.",
    "Set `folder:` in the pipeline to a directory on a local disk, unless the pipeline runs on a cluster.",
)
PLATFORM_UNSUPPORTED = Entry(
    "Headwater does not run on {platform}.",
    "On Windows run `wsl --install` and use Headwater inside WSL; otherwise use Linux or macOS.",
)
JAR_DOWNLOAD_FAILED = Entry(
    "The jar {coordinates} is needed and can't be had: {reason}.",
    "Without a network put {file} into {folder}; behind a mirror set {setting} to its address. "
    "`headwater doctor --jars` lists what is there.",
    retry=True,
)
JAR_CHECKSUM = Entry(
    "{path} is not {coordinates}: its SHA-256 begins with {found} instead of {wanted}.",
    "Delete it, and it is fetched again; if it was put there by hand, fetch it from where the others are.",
)
JAR_DOWNLOAD_CHECKSUM = Entry(
    "The repository sent {path}, and it is not {coordinates}: its SHA-256 begins with {found} instead of "
    "{wanted}.",
    "Set HEADWATER_REPOSITORY to a repository that has the file as it was published; or put that into the "
    "folder of HEADWATER_JARS.",
)
JAR_UNSUPPORTED = Entry(
    "No jar for {need} is known to fit Spark {spark}.",
    "Install a Spark that has one: `pip install 'pyspark==4.1.*'`.",
)
JAR_DIR_NOT_FOUND = Entry(
    "{setting} is {folder}, which is no folder.", "Make it and put the jars there, or unset {setting}."
)
INTERNAL_ERROR = Entry(
    "Headwater met something it has no word for: {error}.",
    "Run the command again with `--verbose` and report what it prints.",
)


# What can go wrong with a local server for development.

BROKER_START_FAILED = Entry(
    "The Kafka broker did not come up: {reason}.",
    "Read {log}; another broker on this folder has to be stopped first, or choose another with `--folder`.",
)
BROKER_DIED = Entry(
    "The Kafka broker ended by itself: {reason}.",
    "Read {log}, and start it again with the same `--folder`: what was written is there.",
)
BROKER_DIR_UNWRITABLE = Entry(
    "The broker's folder {folder} can't be written: {reason}.",
    "Choose one that you may write with `--folder`.",
)
PORT_IN_USE = Entry(
    "Port {port} on {host} is taken by another program.",
    "Choose another with `--port`, or let a free one be found with `--port 0`; if it is a broker, send to it "
    "with `--servers {host}:{port}`.",
)
KAFKA_CLIENT_MISSING = Entry(
    "Topics and messages need the Python package confluent-kafka, which is not installed.",
    "Run `pip install 'headwater[kafka]'`.",
)
BROKER_REQUEST_FAILED = Entry(
    "The broker at {servers} did not {what}: {reason}.",
    "Correct what the sentence names, or look whether the broker runs: `headwater dev kafka` starts one.",
)
DEV_OPTIONS_CONFLICT = Entry(
    "{says}.",
    "See `headwater dev kafka --help`; `headwater dev kafka --produce events.jsonl --topic events` starts a "
    "broker and fills a topic.",
)
TOPICS_INVALID = Entry(
    "`--topics {text}` can't be read: {says}.",
    "Write names with a number of partitions where it is not 1: `--topics impressions:2,clicks`.",
)
PRODUCE_RATE_INVALID = Entry(
    "`--rate {text}` is not a rate: {says}.", "Write messages in a time: `--rate 100/s` or `--rate 500/m`."
)
PRODUCE_FILE_UNREADABLE = Entry(
    "{file} can't be read: {reason}.", "Name a file with one message in each line, or `-` for standard input."
)


# Why the executors of a cluster cannot use local paths.

PATH_NOT_SHARED = Entry(
    "{use} {path}, a local path that not all executors share with the driver: {hosts}.",
    "Mount a shared file system at the same path on the driver and on every worker, and set {key} to a path "
    "on it; or run on one machine with `--master 'local[*]'`.",
)
PATH_NOT_WRITABLE = Entry(
    "{use} {path}, where not all executors can create files: {hosts}.",
    "Grant write permission on this directory to the user that runs the executors; or set {key} to a "
    "directory that the driver and every executor can write.",
)
EXECUTORS_MISSING = Entry(
    "Headwater could not check whether executors share the local path {path}: {master} provided no executor "
    "within {seconds} s.",
    "Provide a worker with enough free cores and memory for one executor, then run again. If the cluster "
    "needs longer, raise `spark.scheduler.maxRegisteredResourcesWaitingTime`; Headwater then waits longer, "
    "too.",
    retry=True,
)
EXECUTORS_CHECK_FAILED = Entry(
    "Headwater could not check whether the executors of {master} share the local path {path}: {reason}.",
    "Read the log of the executors, fix the cause and run again: they need the driver's Python version, "
    "{python} (set PYSPARK_PYTHON to its path on the workers), and mounts that respond.",
    retry=True,
)
RULE_LOAD_FAILED = Entry(
    "The installed rule `{name}` ({module}) could not be loaded: {error}.",
    "Fix or uninstall the package that contains it.",
)
RULE_NAME_CONFLICT = Entry(
    "Two rules have the name `{name}`; one is {other}.",
    "Rename the entry point of the rule that is not built in, or uninstall its package.",
)
