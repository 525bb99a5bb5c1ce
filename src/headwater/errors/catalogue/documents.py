"""What can be wrong with a file as such: reading it, its YAML, its `${…}`."""

from headwater.errors.problems import Entry

FILE_NOT_THERE = Entry(
    "HW-FILE-NOT-THERE",
    "There is no file {file}.",
    "{hint}",
)
FILE_IS_FOLDER = Entry(
    "HW-FILE-IS-FOLDER",
    "{file} is a folder, not a file.",
    "{hint}",
)
FILE_UNREADABLE = Entry(
    "HW-FILE-UNREADABLE",
    "{file} can't be read: {reason}.",
    "Check who may read it: `ls -l {file}`.",
)
NOT_UTF8 = Entry(
    "HW-NOT-UTF8",
    "This line is not UTF-8 text.",
    "Save {file} as UTF-8 in your editor.",
)
YAML_CHARACTER = Entry(
    "HW-YAML-CHARACTER",
    "The character {character} may not stand in a YAML file.",
    'Delete it, or write it as an escape between double quotes: "{escape}".',
)
YAML_TOO_LARGE = Entry(
    "HW-YAML-TOO-LARGE",
    "{file} is larger than {limit} bytes, the most that is read.",
    "Check that it is the right file; move long SQL or code into files of their own.",
)
YAML_TOO_DEEP = Entry(
    "HW-YAML-TOO-DEEP",
    "Values are nested more than {limit} levels deep here.",
    "Check the brackets and the indentation; no pipeline needs this depth.",
)
YAML_TOO_MANY = Entry(
    "HW-YAML-TOO-MANY",
    "The file holds more than {limit} values, counting what `*aliases` repeat.",
    "Split the pipeline, or write fewer aliases.",
)
YAML_LOOP = Entry(
    "HW-YAML-LOOP",
    "`*{name}` stands inside the value that `&{name}` names, so the value would contain itself.",
    "Take `*{name}` out of that value; if it is meant as text, quote it.",
)
YAML_UNKNOWN_ALIAS = Entry(
    "HW-YAML-UNKNOWN-ALIAS",
    "`*{name}` repeats a value, but no value above is marked `&{name}`.",
    'If it is meant as text, quote it: "*{name}".',
)
YAML_EMPTY = Entry(
    "HW-YAML-EMPTY",
    "{file} declares nothing: it is empty or holds only comments.",
    "Begin with `name: my_pipeline`.",
)
YAML_DOCUMENTS = Entry(
    "HW-YAML-DOCUMENTS",
    "A second YAML document begins here, and a file holds one pipeline.",
    "Move what follows into a file of its own, or take the `---` or `...` line out.",
)
YAML_DIRECTIVE = Entry(
    "HW-YAML-DIRECTIVE",
    "YAML directives are not supported: `{line}`.",
    "Take the line out; files are always read as YAML 1.2.",
)
YAML_NOT_MAPPING = Entry(
    "HW-YAML-NOT-MAPPING",
    "The file must hold keys with values at its top level, and it holds {kind}.",
    "Begin with `name: my_pipeline`.",
)
YAML_TAB = Entry(
    "HW-YAML-TAB",
    "This line is indented with a tab, which YAML does not allow.",
    "Indent with spaces, the same number on every line of one block.",
)
YAML_INDENT = Entry(
    "HW-YAML-INDENT",
    "The indentation of this line does not fit the lines above it.",
    "Line it up with the keys or list items that it belongs to.",
)
YAML_NO_COLON = Entry(
    "HW-YAML-NO-COLON",
    "This line is no `key: value`: `{line}`.",
    "Write a colon and a space after the key; indent the line further if it continues the one above.",
)
YAML_NO_SPACE = Entry(
    "HW-YAML-NO-SPACE",
    "There is no space after the colon in `{found}`, so it is not read as a key with a value.",
    "Write `{suggestion}`; quote it if it is meant as one text.",
)
YAML_QUOTE_COLON = Entry(
    "HW-YAML-QUOTE-COLON",
    "The value holds a colon followed by a space, which begins another key in YAML.",
    "Quote the value: `{suggestion}`; or write it below the key after a `|`.",
)
YAML_QUOTE_COMMA = Entry(
    "HW-YAML-QUOTE-COMMA",
    "Between brackets a comma ends a value, so `{found}` is read as {pieces} values.",
    "Quote the value: `{suggestion}`.",
)
YAML_QUOTE_SUBSTITUTION = Entry(
    "HW-YAML-QUOTE-SUBSTITUTION",
    "Between brackets `{found}` must be quoted, because YAML reads its `{{` as a new mapping.",
    "Write `{suggestion}`.",
)
YAML_QUOTE_START = Entry(
    "HW-YAML-QUOTE-START",
    "A value that begins with {character} must be quoted.",
    "Write `{suggestion}`.",
)
YAML_QUOTE_KEY = Entry(
    "HW-YAML-QUOTE-KEY",
    "The key `{key}` is read as {kind}, and keys must be text.",
    'Quote it: `"{key}":`.',
)
YAML_KEY_NOT_TEXT = Entry(
    "HW-YAML-KEY-NOT-TEXT",
    "A key must be text, and here stands {kind}.",
    "If `{{`, `[` or `*` is meant as text, quote the whole value or key.",
)
YAML_DUPLICATE_KEY = Entry(
    "HW-YAML-DUPLICATE-KEY",
    "The key `{key}` stands twice: on line {first} and on line {second}.",
    "Rename or delete one of the two.",
)
YAML_MERGE = Entry(
    "HW-YAML-MERGE",
    "Merge keys (`<<`) are not supported.",
    "Write the keys out; `*name` may repeat a whole value.",
)
YAML_TAG = Entry(
    "HW-YAML-TAG",
    "YAML tags are not supported: `{tag}`.",
    "Take it out; if it is meant as text, quote the value.",
)
YAML_UNCLOSED = Entry(
    "HW-YAML-UNCLOSED",
    "The {opened} opened here is not closed.",
    "Add the closing {closing}.",
)
YAML_COMMA = Entry(
    "HW-YAML-COMMA",
    "A comma or the closing {closing} is missing before this place.",
    "Add it; quote values that hold brackets, quotes or `#`.",
)
YAML_AFTER_VALUE = Entry(
    "HW-YAML-AFTER-VALUE",
    "There is more text after the end of the value.",
    "Quote the value as a whole; inside single quotes write a quote as '', inside double quotes as \\\".",
)
YAML_LIST = Entry(
    "HW-YAML-LIST",
    "A list item can't begin on the same line as its key.",
    "Put `- …` on the next line, or write the list between brackets: [a, b].",
)
YAML_ESCAPE = Entry(
    "HW-YAML-ESCAPE",
    "The text between double quotes has a `\\` that begins no known escape.",
    "Write `\\\\` for a backslash, or use single quotes.",
)
YAML_SYNTAX = Entry(
    "HW-YAML-SYNTAX",
    "This line can't be read as YAML: `{line}`.",
    "Check indentation, brackets and quotes here and on the line above; quote special characters.",
)
VARIABLE_MISSING = Entry(
    "HW-VARIABLE-MISSING",
    "The environment variable {name} is not set.",
    "{hint}Set it, `export {name}=…`, or give a default, `${{{name}:-…}}`.",
)
VARIABLE_MALFORMED = Entry(
    "HW-VARIABLE-MALFORMED",
    "`{found}` is no substitution.",
    "Write `${{NAME}}`, `${{NAME:-default}}` or `${{secret:NAME}}`; write `$${{` for a literal `${{`.",
)
VARIABLE_IN_KEY = Entry(
    "HW-VARIABLE-IN-KEY",
    "The key `{key}` holds `${{`, and only values are substituted.",
    "Write the key out.",
)
SECRET_MISSING = Entry(
    "HW-SECRET-MISSING",
    "The secret {name} is neither in the environment nor in a file named by {name}_FILE.",
    "Set it before the run: `export {name}=…` or `export {name}_FILE=/path/to/file`.",
)
SECRET_FILE = Entry(
    "HW-SECRET-FILE",
    "The secret {name} can't be read from {file}, which {name}_FILE names: {reason}.",
    "Set {name}_FILE to a readable text file, or set {name} itself.",
)
