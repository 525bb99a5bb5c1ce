"""What can be wrong with the user's own classes, and with what is sent to the executors."""

from headwater.errors.problems import Entry

PYTHON_CLASS_MISSING = Entry(
    "HW-PYTHON-CLASS-MISSING",
    "{file} has no class {name}.",
    "Correct the name; the classes of the file, nearest name first: {known}.",
)

NOT_A_CLASS = Entry(
    "HW-NOT-A-CLASS",
    "{name} in {file} is {kind}, not a class.",
    "Name a class of this file.",
)

CLASS_METHOD_MISSING = Entry(
    "HW-CLASS-METHOD-MISSING",
    "The class {name} has no method {method}.",
    "Write `def {method}({takes}):` in it.",
)

CLASS_NEEDS_ARGUMENTS = Entry(
    "HW-CLASS-NEEDS-ARGUMENTS",
    "Objects of the class {name} are made without arguments, but its `__init__` needs `{needs}`.",
    "Give every parameter of `__init__` a default, or read the value from the environment there.",
)

CLASS_NOT_MADE = Entry(
    "HW-CLASS-NOT-MADE",
    "`{name}()` failed: {error}.",
    "Correct it; what needs the executor, such as a connection, belongs into `open`.",
)

NOT_SERIALIZABLE = Entry(
    "HW-NOT-SERIALIZABLE",
    "`{name}` can't be sent to the executors: {part} can't be pickled ({type}).",
    "{hint}",
)
