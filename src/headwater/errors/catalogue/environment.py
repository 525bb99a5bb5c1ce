"""What the machine, Java, Python or a package can lack."""

from headwater.errors.problems import Entry

JAVA_MISSING = Entry(
    "HW-JAVA-MISSING",
    "No Java was found that Spark can use.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21.",
)
JAVA_NOT_THERE = Entry(
    "HW-JAVA-NOT-THERE",
    "{origin} names {path}, which holds no bin/java that can be run.",
    "Set JAVA_HOME to the folder of a Java 17 or 21, or unset it.",
)
JAVA_TOO_OLD = Entry(
    "HW-JAVA-TOO-OLD",
    "{origin} gives Java {version} ({path}); Spark needs {oldest} or newer.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21.",
)
JAVA_TOO_NEW = Entry(
    "HW-JAVA-TOO-NEW",
    "{origin} gives Java {version} ({path}); Spark can't read files on Java {newest_plus_one} and newer.",
    "Run `pip install 'headwater[java]'`, or set JAVA_HOME to a Java 17 or 21.",
)
JAVA_UNREADABLE = Entry(
    "HW-JAVA-UNREADABLE",
    "The Java of {origin} ({path}) does not say which version it is.",
    "Run `{path} -version` to see why, or set JAVA_HOME to a Java 17 or 21.",
)

JVM_NOT_STARTED = Entry(
    "HW-JVM-NOT-STARTED",
    "Spark's Java process ended before it was ready: {reason}.",
    "Read {log}, correct the setting that it names and run again; `headwater doctor` examines the machine.",
)
SPARK_NOT_STARTED = Entry(
    "HW-SPARK-NOT-STARTED",
    "Spark did not start on master {master}: {reason}.",
    "Read {log}, correct the setting `spark.master` or what the sentence names, and run again.",
)
SUBMIT_ARGS_UNREADABLE = Entry(
    "HW-SUBMIT-ARGS-UNREADABLE",
    "The environment variable PYSPARK_SUBMIT_ARGS is `{text}` and can't be read: {reason}.",
    "Correct its quotes or unset it.",
)

PYTHON_TOO_OLD = Entry(
    "HW-PYTHON-TOO-OLD",
    "This is Python {version}; Headwater needs {oldest} or newer.",
    "Make a virtual environment with a newer Python and install Headwater there.",
)
PACKAGE_MISSING = Entry(
    "HW-PACKAGE-MISSING",
    "The Python package {package} is not installed.",
    "Run `pip install '{package}{supported}'`.",
)
PACKAGE_UNSUPPORTED = Entry(
    "HW-PACKAGE-UNSUPPORTED",
    "{package} {version} is installed; supported is {package}{supported}.",
    "Run `pip install '{package}{supported}'`.",
)
SPARK_CLIENT_ONLY = Entry(
    "HW-SPARK-CLIENT-ONLY",
    "The installed PySpark has no Spark in it: {path} is missing.",
    "Run `pip install 'pyspark{supported}'`, or set SPARK_HOME to a full Spark of the same version.",
)
SPARK_HOME_DIFFERS = Entry(
    "HW-SPARK-HOME-DIFFERS",
    "SPARK_HOME ({path}) holds Spark {found}, but PySpark is {version}.",
    "Unset SPARK_HOME to use the Spark that PySpark brings, or install `pyspark=={found}`.",
)
SPARK_HOME_WRONG = Entry(
    "HW-SPARK-HOME-WRONG",
    "SPARK_HOME is {path}, which holds no Spark.",
    "Unset SPARK_HOME to use the Spark that PySpark brings.",
)
MEMORY_LOW = Entry(
    "HW-MEMORY-LOW",
    "{free} of {total} GB memory are free; Spark needs about {wanted} GB on one machine.",
    "Close other programs, or lower `spark.driver.memory` under `spark:` in the pipeline.",
)
CORES_FEW = Entry(
    "HW-CORES-FEW",
    "Only {cores} core can be used; Spark will work on one partition at a time.",
    "Give the container or virtual machine two cores or more; `continuous` and `real time` need them.",
)
FOLDER_NOT_WRITABLE = Entry(
    "HW-FOLDER-NOT-WRITABLE",
    "The run folder {path} can't be written: {reason}.",
    "Set `folder:` in the pipeline to a folder that you may write.",
)
FOLDER_ON_NETWORK = Entry(
    "HW-FOLDER-ON-NETWORK",
    "The run folder {path} is on a network file system ({kind}), where locks and renames are not reliable.",
    "Set `folder:` in the pipeline to a directory on a local disk, unless the pipeline runs on a cluster.",
)
PLATFORM_UNSUPPORTED = Entry(
    "HW-PLATFORM-UNSUPPORTED",
    "Headwater does not run on {platform}.",
    "On Windows run `wsl --install` and use Headwater inside WSL; otherwise use Linux or macOS.",
)
JAR_NOT_FETCHED = Entry(
    "HW-JAR-NOT-FETCHED",
    "The jar {coordinates} is needed and can't be had: {reason}.",
    "Without a network put {file} into {folder}; behind a mirror set {setting} to its address. "
    "`headwater doctor --jars` lists what is there.",
    retry=True,
)
JAR_CHANGED = Entry(
    "HW-JAR-CHANGED",
    "{path} is not {coordinates}: its SHA-256 begins with {found} instead of {wanted}.",
    "Delete it, and it is fetched again; if it was put there by hand, fetch it from where the others are.",
)
JAR_SENT = Entry(
    "HW-JAR-SENT",
    "The repository sent {path}, and it is not {coordinates}: its SHA-256 begins with {found} instead of "
    "{wanted}.",
    "Set HEADWATER_REPOSITORY to a repository that has the file as it was published; or put that into the "
    "folder of HEADWATER_JARS.",
)
JAR_NOT_KNOWN = Entry(
    "HW-JAR-NOT-KNOWN",
    "No jar for {need} is known to fit Spark {spark}.",
    "Install a Spark that has one: `pip install 'pyspark==4.1.*'`.",
)
JAR_NO_FOLDER = Entry(
    "HW-JAR-NO-FOLDER",
    "{setting} is {folder}, which is no folder.",
    "Make it and put the jars there, or unset {setting}.",
)
INTERNAL = Entry(
    "HW-INTERNAL",
    "Headwater met something it has no word for: {error}.",
    "Run the command again with `--verbose` and report what it prints.",
)
