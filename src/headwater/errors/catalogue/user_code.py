"""What can be wrong with the user's own Python files."""

from headwater.errors.problems import Entry

CODE_FILE_MISSING = Entry(
    "There is no Python file {file}.",
    "Correct the name or create the file; Python files in that folder, nearest name first: {known}.",
)

CODE_FILE_UNREADABLE = Entry(
    "The Python file {file} can't be read: {reason}.",
    "Check with `ls -la {file}` that it is a file and that this user may read it.",
)

CODE_OUTSIDE_PROJECT = Entry(
    "The Python file {file} lies outside the pipeline's folder {root}.",
    "Move it beside the pipeline file or below: only modules in that folder are sent to the executors.",
)

CODE_FILE_NAME = Entry(
    "{file} can't be loaded as a module because of its name.",
    "Rename it: a module's file ends in .py, and neither it nor its folders have another dot in their names.",
)

CODE_ENCODING = Entry(
    "This line is not in the file's encoding: {reason}.",
    "Save the file as UTF-8, or name its encoding in the first line, such as `# -*- coding: latin-1 -*-`.",
)

CODE_SYNTAX = Entry(
    "Python can't read this line: {reason}.", "Correct it; `python -m py_compile {file}` shows the same."
)

CODE_FAILED = Entry(
    "This line failed while its module was loaded: {exception}.",
    "Correct it, then run `headwater check` again; `--verbose` shows the whole traceback.",
)

CODE_NEEDS_SPARK = Entry(
    "This line needs a running Spark, and none runs yet while the file of a pipeline is loaded.",
    'Name types as objects, `@udf(DoubleType())` and not `@udf("double")`; move the rest into a function.',
)

CODE_NOT_INSTALLED = Entry(
    "This line imports {module}, which is neither installed nor a module beside the pipeline file.",
    "Install the package in this environment, or correct the name.",
)

CODE_DYNAMIC_IMPORT = Entry(
    "This line loads {module} by its name as text, so it can't be seen that the executors need it.",
    "Use an `import` statement for {module}; it may stand inside a function.",
)

FUNCTION_MISSING = Entry(
    "{file} has no function {function}.", "Correct the name; what the file has, nearest name first: {known}."
)

FUNCTION_NOT_DEFINED_HERE = Entry(
    "{function} is no plain `def` in {file}, so the tables it reads can't be told from its parameters.",
    "Name the file and function whose `def` it is, or write a `def {function}(…)` here that calls it.",
)

FUNCTION_PARAMETER_KINDS = Entry(
    "The function {function} takes {parameter}, but every parameter has to be passed by its name.",
    "Write its parameters out as plain names, without `*`, `**` or `/`.",
)

FUNCTION_ARGUMENTS = Entry(
    "`{function}({takes})` is called with {count} arguments ({passed}), which it can't take.",
    "Write it as `def {short}({passed}):`.",
)

FUNCTION_NOT_CALLABLE = Entry(
    "{function} in {file} is a value of type {type}, not a function.",
    "Name a function or a class of this file.",
)
FUNCTION_RETURNS = Entry("The function `{name}` {says}.", "{hint}")
CLASS_MISSING = Entry(
    "The class {java_class} of the function `{name}` is in none of the jars.",
    "Name the jar that holds it under `jars:`, and the class with its package, such as com.example.Mean.",
)
CLASS_NO_FUNCTION = Entry(
    "The class {java_class} of the function `{name}` is no function of Spark's.",
    "It has to implement org.apache.spark.sql.api.java.UDF1 (or another of UDF0 … UDF22), or to extend "
    "org.apache.spark.sql.expressions.Aggregator.",
)
AGGREGATOR_INPUT = Entry(
    "The class {java_class} of the function `{name}` takes {taken}, which SQL can't pass.",
    "Declare its input as one of Java's own types, such as Aggregator<Double, …>; in Scala write "
    "java.lang.Double.",
)
FUNCTION_BUILT_IN = Entry(
    "The function `{name}` has the name of one that Spark has itself, and would take its place everywhere.",
    "Give it another name, such as `my_{name}`.",
)


# What can be wrong with the user's own classes, and with what is sent to the executors.

PYTHON_CLASS_MISSING = Entry(
    "{file} has no class {name}.", "Correct the name; the classes of the file, nearest name first: {known}."
)

NOT_A_CLASS = Entry("{name} in {file} is {kind}, not a class.", "Name a class of this file.")

CLASS_METHOD_MISSING = Entry(
    "The class {name} has no method {method}.", "Write `def {method}({takes}):` in it."
)

CLASS_NEEDS_ARGUMENTS = Entry(
    "Objects of the class {name} are made without arguments, but its `__init__` needs `{needs}`.",
    "Give every parameter of `__init__` a default, or read the value from the environment there.",
)

CLASS_NOT_MADE = Entry(
    "`{name}()` failed: {error}.",
    "Correct it; what needs the executor, such as a connection, belongs into `open`.",
)

NOT_SERIALIZABLE = Entry(
    "`{name}` can't be sent to the executors: {part} can't be pickled ({type}).", "{hint}"
)
