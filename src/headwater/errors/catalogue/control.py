"""Problems of the control of a run from outside: its socket, and the runs on this machine."""

from headwater.errors.problems import Entry

CONTROL_REQUEST_INVALID = Entry(
    "Invalid request to the control socket: {reason}.",
    'Send one line of JSON, such as `{{"version": 1, "verb": "status", "args": {{}}}}`.',
)
CONTROL_VERSION_UNSUPPORTED = Entry(
    "The run uses version {run} of the control protocol, but the client uses version {client}.",
    "Use the version of Headwater that started the run, or restart the run with this version.",
)
CONTROL_FORBIDDEN = Entry(
    "The run belongs to user {owner} and does not accept requests of user {user}.",
    "Run the command as the user of the run, such as `sudo -u '#{owner}' headwater status`.",
)
CONTROL_BUSY = Entry(
    "The run already serves {count} control connections.",
    "Try again in a few seconds. If this persists, stop the programs that keep connections open.",
    retryable=True,
)
CONTROL_FAILED = Entry(
    "The run could not execute `{verb}`: {error}.",
    "Report this bug with the output of `headwater logs`.",
)
CONTROL_SOCKET_FAILED = Entry(
    "Could not create the control socket of {directory}: {reason}. No other process can control this run.",
    "Set TMPDIR to a local directory that this user can write to, then restart.",
)
RUN_NOT_ACTIVE = Entry(
    "No run is active in {directory}.",
    "Start one with `headwater run`. To list the runs on this machine, run `headwater status`.",
)
RUN_KILLED = Entry(
    "Run {run} in {directory} ended without recording its end: its process was killed, or the machine stopped.",
    "Start it again; every query that has a checkpoint resumes from it. To find the cause, run "
    "`headwater logs {directory}` and check the log of the system for a lack of memory.",
)
RUN_UNREACHABLE = Entry(
    "Could not connect to the run in {directory}: {reason}.",
    "Run the command on the same machine, in the same container and as the same user as the run.",
)
RUN_UNRESPONSIVE = Entry(
    "The run in {directory} (process {pid}) did not answer within {seconds:g} s.",
    "Check that process {pid} is neither suspended nor overloaded (`ps -o stat,pcpu -p {pid}`), then try "
    "again.",
    retryable=True,
)
RUN_CONNECTION_LOST = Entry(
    "The run in {directory} exited or closed the connection before it answered.",
    "Check its status: `headwater status {directory}`.",
    retryable=True,
)
RUN_OWN_PROCESS_ONLY = Entry("`{name}` is available only in the process of the run.", "{hint}")
RUN_DIR_NOT_FOUND = Entry(
    "{path} is neither a pipeline file nor a run directory.",
    "Set a file such as `pipeline.yml`, or a directory such as `.headwater`. To list the runs on this "
    "machine, run `headwater status`.",
)
RUN_NOT_FOUND = Entry(
    "No run is recorded in {directory}.",
    "Start the pipeline with `headwater run`. To list the runs on this machine, run `headwater status`.",
)
RUN_AMBIGUOUS = Entry(
    "More than one run is active on this machine: {runs}.",
    "Add the pipeline file or the run directory to the command, such as `{first}`.",
)
RUN_NOT_SELECTED = Entry(
    "The current directory has no run directory `.headwater`, and no run is active on this machine.",
    "Add the pipeline file or the run directory to the command. To list past runs, run `headwater status`.",
)
SINCE_INVALID = Entry(
    "Invalid `--since {text}`. Expected a duration or an ISO 8601 timestamp.",
    "Write for example `--since '10 minutes'` or `--since 2026-01-31T12:00:00Z`.",
)
