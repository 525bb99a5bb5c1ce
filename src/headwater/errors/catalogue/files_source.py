"""What can go wrong with the files that a source reads: their folders, and their clean-up."""

from headwater.errors.problems import Entry

FILES_KEYS_DIFFER = Entry(
    "HW-FILES-KEYS-DIFFER",
    "The files of the source `{name}` lie in folders with different keys: {one} and {other}.",
    "Move one of them away, or declare a source for each kind of folder.",
)
FILES_KEY_NOT_NAMED = Entry(
    "HW-FILES-KEY-NOT-NAMED",
    "The source `{name}` has files in `{key}=…` folders, and its schema has no column `{key}`: {file}.",
    "Add `{key}` with its type to the schema, or move the folder away; "
    "`options: {{recursiveFileLookup: true}}` reads the files without it.",
)
FILES_KEY_TYPE = Entry(
    "HW-FILES-KEY-TYPE",
    "The column `{key}` of the source `{name}` is {type}, which the name of a folder can't hold.",
    "Give it a plain type, such as string, int or date.",
)
FILES_FOLDER = Entry(
    "HW-FILES-FOLDER",
    "The query `{sink}` met a file of the source `{source}` in unexpected key=value folders: {path}.",
    "Move it to where it belongs and start again, or declare a source of its own for such folders.",
)
FILES_FOLDER_VALUE = Entry(
    "HW-FILES-FOLDER-VALUE",
    "The query `{sink}` met a folder of the source `{source}` whose value does not fit its column: {path}.",
    "Rename the folder or change the type in the schema, and start again.",
)
FILES_NAME = Entry(
    "HW-FILES-NAME",
    "The query `{sink}` found a file of the source `{source}` with one of `[ ] {{ }} * ? \\` in its path, "
    "and with the option `basePath` Spark would duplicate the rows of its batch: {path}.",
    "Remove the option `basePath` from the source, and start again.",
)
FILES_PATH_IS_GLOB = Entry(
    "HW-FILES-PATH-IS-GLOB",
    "Source `{name}`: {path} exists, but `path` is a glob that does not match it.",
    "Write `{escaped}` to read this directory or file, or rename it.",
)
FILES_LOG_UNREAD = Entry(
    "HW-FILES-LOG-UNREAD",
    "The source `{name}` streams {path}, where a files sink lists what counts; Spark passes over that list, "
    "because a folder above has one of `[ ] {{ }} * ? \\` in its name.",
    "Move the project to a folder without such characters.",
)
CLEAN_UP_STATIC = Entry(
    "HW-CLEAN-UP-STATIC",
    "The source `{name}` is static and has `clean_up`: no file of it is ever finished.",
    "Leave `clean_up` out.",
)
CLEAN_UP_SHARED = Entry(
    "HW-CLEAN-UP-SHARED",
    "`clean_up` of the source `{name}` would take files away from the static source `{other}` ({place}).",
    "Let the two read different folders, or leave `clean_up` out.",
)
CLEAN_UP_SINK = Entry(
    "HW-CLEAN-UP-SINK",
    "`clean_up` of the source `{name}` would take files out of {place}, which a sink keeps a list of.",
    "Leave `clean_up` out: the readers of that folder need every file.",
)
CLEAN_UP_ARCHIVE = Entry(
    "HW-CLEAN-UP-ARCHIVE",
    "The source `{name}` would archive files to {archive}, and the source `{other}` reads {place}.",
    "Archive to a folder that no source reads and that holds no folder which one reads.",
)
CLEAN_UP_DISK = Entry(
    "HW-CLEAN-UP-DISK",
    "The archive {archive} of the source `{name}` is on another file system than {place}.",
    "Archive to a folder on the same one, where a file is moved in one step.",
)
CLEAN_UP_IN_PROCESS = Entry(
    "HW-CLEAN-UP-IN-PROCESS",
    "The sink `{sink}` begins anew at each start, and by then the files of `{name}` have been {done}.",
    "Leave `clean_up` out, or let another kind of sink read the source.",
)
CLEAN_UP_WAITS = Entry(
    "HW-CLEAN-UP-WAITS",
    "`clean_up` of the source `{name}` leaves each file that `{other}` passes over for its {keys} ({place}).",
    "Leave {keys} out if all files are to go, or let the two sources read different folders.",
)
CLEAN_UP_NEW_SINK = Entry(
    "HW-CLEAN-UP-NEW-SINK",
    "The sink `{sink}` starts anew and misses the files of `{name}` that were {done} before.",
    "If it needs them, put them back under new names; the other sinks then read them again, too.",
)
CLEAN_UP_CHANGED = Entry(
    "HW-CLEAN-UP-CHANGED",
    "{file} was written again after the source `{name}` had read it; it is not read twice, and stays.",
    "Give new data a new name; move this file away.",
)
CLEAN_UP_FAILED = Entry(
    "HW-CLEAN-UP-FAILED",
    "A finished file of the source `{name}` can't be {done}: {says} ({file}).",
    "Mend what it names; the run goes on, and after each batch it is tried again.",
)
BEHIND = Entry(
    "HW-BEHIND",
    "The query `{sink}` is behind: {waiting} files wait in {path}, and the last batch took {taken} of them.",
    "If they don't become fewer, raise `{limit}` of the source.",
)
