"""Rows that were set aside, and feeding them again."""

from headwater.errors.problems import Entry

QUARANTINE_UNREADABLE = Entry(
    "The file {file} of a quarantine can't be read: {reason}.",
    "See whether it was changed or removed by hand; the rows in other files can be read without it.",
)
NO_QUARANTINE = Entry(
    "Nothing was ever set aside for `{name}`; {known}.",
    "A source sets bad rows aside with `bad_rows: quarantine`, a table with `else: quarantine` at an "
    "expectation. List what there is: `headwater quarantine ls {file}`.",
)
REPLAY_NEEDS_BATCHES = Entry(
    "The sink `{sink}` reads `{name}` with the trigger `{trigger}`, which takes rows from one source only.",
    "Set another trigger such as `every 10 seconds`, and stay with it: rows that were fed again stay among "
    "what the query reads.",
)
REPLAY_READ_TWICE = Entry(
    "The query of `{sink}` reads `{stream}` several times over (in a UNION, or in a join with itself), and "
    "rows of `{name}` can't be fed again into such a query.",
    "Read it once, with `CASE` or `explode` for the branches, or bring the rows into the source by another "
    "way: `headwater quarantine export` writes them.",
)
REPLAY_NOT_READ = Entry(
    "Rows of `{name}` that are fed again would be read by no query: {why}.",
    "Declare it as it was when the rows were set aside and let a sink read it, or write the rows out for "
    "another use: `headwater quarantine export {file} {name}`.",
)
MENDED_UNREADABLE = Entry(
    "The file {file} has no mended rows in line {line}: {reason}.",
    "Give it the form that `headwater quarantine export` writes, a JSON object in each line, and change "
    "`text`, or `value` (the bytes in base64) where a row is no text.",
)
MENDED_NO_FILE = Entry(
    "The file of mended rows {file} can't be read: {reason}.",
    "Look at its name; `headwater quarantine export … --to FILE` writes one.",
)
EXPORT_UNWRITABLE = Entry(
    "The rows can't be written to {file}: {reason}.",
    "Name another file with `--to`, in a folder that is there and that this user may write; without `--to` "
    "they go to standard output.",
)
REPLAY_PLACE_UNKNOWN = Entry(
    "It can't be told how far the query `{sink}` has read `{name}`, so that rows which are fed again might "
    "come to it twice.",
    "Its checkpoint is older than what is kept of its last start, or newer. Run the pipeline once, "
    "`headwater run {file} --until-idle`, then feed the rows.",
)
FED_AGAIN_GONE = Entry(
    "The query of `{sink}` has read rows of `{source}` that were fed again, and their folder {folder} is "
    "gone.",
    "Put the folder back; it is part of what the query has read.",
)
FED_AGAIN_LEFT = Entry(
    "The query of `{sink}` has read rows of `{source}` that were fed again, and as it is declared now it "
    "would not read them any more.",
    "Let the sink read `{source}` as before. For another query give the sink another name: it begins anew.",
)
FED_AGAIN_UNREADABLE = Entry(
    "A row that was fed again to the table `{table}` is not one JSON object with all that a row of it needs: "
    "{row}.",
    "Give the table an expectation with `else: quarantine` (the condition `true` is enough) and run again: "
    "the row is set aside, and can be mended and fed once more.",
)


# Rows that can't be read, and what becomes of them.

BAD_ROW = Entry(
    "A row of the source `{source}` can't be read: {reason} ({where}).",
    "Mend it where it comes from, or write `bad_rows: quarantine` at the source: bad rows are then set aside "
    "and counted, and the others go on. `drop` and `keep` are the other choices.",
)
STATIC_QUARANTINE = Entry(
    "The source `{name}` is static and has `bad_rows: quarantine`, but only a stream sets rows aside: a "
    "static source is read anew for each batch.",
    "Write `bad_rows: drop`, `keep` or `fail`, or leave `static` out.",
)
BAD_ROWS_NOT_TOLD = Entry(
    "The source `{name}` has `{key}`, but a {connector} source can't tell a row that can't be read.",
    "Leave `{key}` out, and judge the rows by an expectation of a table (`expect:`).",
)
