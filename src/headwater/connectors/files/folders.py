"""Folders named `key=value`, which become columns; Spark's own way with them on a stream is not safe.

Spark looks for such folders once at the start and once more in the files of each batch, and puts the two
together by position: a folder that comes later can fill the wrong column, another key can give its values to
a declared column, and a file beside the folders can be left out, all without a word. So on a stream the
columns are worked out here, from the path of each file, and a file with other folders stops the query.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from urllib.parse import quote, unquote

from headwater.connectors.contract import METADATA
from headwater.spec import Column, OptionValue, Waiting
from headwater.spec.paths import escaped, in_project, is_uri, local_matches, read_matcher, split_fixed
from headwater.spec.schema import backticked

WRONG_FOLDER = "HW-PARTITION-DIR-UNEXPECTED"
WRONG_VALUE = "HW-PARTITION-VALUE-INVALID"
WRONG_NAME = "HW-FILES-NAME-UNSUPPORTED"
PATH = "_metadata.file_path"
FILE_FIELDS = {
    "file_path": "string",
    "file_name": "string",
    "file_size": "bigint",
    "file_block_start": "bigint",
    "file_block_length": "bigint",
    "file_modification_time": "timestamp",
}
"""What Spark knows of the file of a row; parquet files have one more field, which is left out."""
FILE_OF_ROW = f"struct({', '.join(f'_metadata.{each}' for each in FILE_FIELDS)}) AS {METADATA}"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What a folder is called whose key has no value."""

_OPTIONS = ("basepath", "recursivefilelookup")
_KEYED = r"/[^/=]+=[^/]*(?=/)"
_KEY_FOLDERS = "(/[^/=]+=[^/]*)*"
_FILE_SYSTEM = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//[^/]*)?(?=/|$)")
_ANY_SYSTEM = "^[^/]*(?://[^/]*)?"
_SAFE = "!$&'()*+,;=:@~-._"


def is_left_to_spark(options: Iterable[str]) -> bool:
    """Whether the user has taken the folders into their own hands."""
    return any(option.lower() in _OPTIONS for option in options)


def may_add_columns(paths: Iterable[str], options: Iterable[str]) -> bool:
    """Whether the rows may have more columns than were declared; True where that can't be told."""
    return is_left_to_spark(options) or any(is_uri(path) for path in paths)


def base_of(path: str, root: str, columns: Iterable[str]) -> str:
    """The folder from which key=value folders count: before a glob begins, and before a declared key."""
    known, base = {column.lower() for column in columns}, list[str]()
    inside = in_project(path, Path(root))
    for part in inside.split("/"):
        name, rest = split_fixed(part)
        if rest or (part.partition("=")[0].lower() in known and "=" in part):
            break
        base.append(name)
    return path.removesuffix(inside) + "/".join(base) or "/"


def common_base(paths: Iterable[str], root: Path) -> str | None:
    """The folder from which key=value folders count below all paths; None where Spark finds it by itself.

    That is so without a pattern, and there is none for paths on several file systems.
    """
    bases = {path: base_of(path, str(root), ()) for path in paths}
    if all(path == base for path, base in bases.items()):
        return None
    parts = zip(*(base.split("/") for base in bases.values()), strict=False)
    same = [part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts)]
    return ("/".join(same) or "/") if same else None


Lister = Callable[[str], Iterable[tuple[str, str]]]
"""Every file below what a pattern stands for, each after the folder or file that the pattern matched."""


def look(pattern: str, base: str, files: Lister) -> dict[tuple[str, ...], str]:
    """The keys of the folders in which files lie now, as Spark lists them, each with one of the files."""
    examples: dict[tuple[str, ...], str] = {}
    for start, file in files(pattern):
        folders = path_in(file).removeprefix(path_in(base)).split("/")[:-1]
        keys = tuple(unquote(folder.partition("=")[0]) for folder in folders if "=" in folder)
        # Without any key, Spark reads what lies in the folder itself and nothing deeper.
        if keys or start in (file, os.path.dirname(file)):
            examples.setdefault(keys, file)
    return examples


def path_in(address: str) -> str:
    """The path without the file system that it names."""
    return _FILE_SYSTEM.sub("", address, count=1)


def local_files(pattern: str) -> Iterator[tuple[str, str]]:
    """What Spark would list on this machine; a folder without a file is given with nothing behind it."""
    for start in sorted(local_matches(pattern)):
        if not os.path.isdir(start) and not is_hidden(os.path.basename(start)):
            yield start, start
        for folder, folders, names in os.walk(start):
            folders[:] = sorted(name for name in folders if not is_hidden(name))
            seen = sorted(name for name in names if not is_hidden(name))
            if seen or (not folders and "=" in os.path.basename(folder)):
                yield start, os.path.join(folder, seen[0] if seen else "")


def is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def fits_a_folder(column: Column) -> bool:
    """Whether the name of a folder can hold a value of the column's type."""
    return not column.type.startswith(("array<", "binary", "map<", "struct<", "variant"))


@dataclass(frozen=True)
class Folders:
    """How the files below one path get their columns, as SQL over what Spark reads from them."""

    source: str
    base: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] | None
    """The keys of the folders as they are written there; None where nothing lay there at the start."""
    pattern: str = ""
    """The declared path as a glob; without one, the base."""
    by_name: bool = True
    """The format finds columns by name, so that one may come from the file or from a folder."""
    path: str = PATH
    """The column that holds the address of the file."""
    validated: bool = False
    """A value that does not fit its column is null, and told by `wrong_value`; else it fails the query."""

    @property
    def inside(self) -> tuple[Column, ...]:
        """The columns that stand in the files."""
        return tuple(column for column in self.columns if self._key_of(column) is None)

    @property
    def guard(self) -> str:
        """True for every row of a file that lies where it should; it fails the query otherwise."""
        fails = f"raise_error(concat('{WRONG_FOLDER} ', {_text(self.source)}, ' ', {self.path}))"
        checked = f"CASE WHEN {self._at_home} THEN true ELSE {fails} END"
        if self.keys is None:
            # Below a folder that is not of the form key=value nothing is read. What lies somewhere else
            # altogether was listed for a reason that is not known here, and is not passed over in silence.
            below = f"{self.path} RLIKE {_text(_quoted_base(self.base) + '/')}"
            return f"CASE WHEN {self._keyed_only} THEN {checked} WHEN {below} THEN false ELSE {fails} END"
        return checked

    @property
    def is_read(self) -> str:
        """False for a file below a directory that the source ignores; `misplaced` judges the others.

        Spark applies it to the listed files, and opens none for which it is false. A file elsewhere was
        listed for another reason, and is not ignored.
        """
        if self.keys:
            return "true"
        pattern = path_in(self.pattern or escaped(self.base))
        fixed = split_fixed(pattern)[0].rstrip("/")
        # A glob stands for the characters of a name, and an address has some of them encoded. That of a
        # replayed row may not.
        plain = f"try_url_decode(replace({self.path}, '+', '%2B'))"
        place = f"if(instr({self.path}, '%') > 0, coalesce({plain}, {self.path}), {self.path})"
        matched = rf"(?s){_ANY_SYSTEM}(?:{read_matcher(pattern).pattern})\z"
        read = f"{place} RLIKE {_text(matched)}"
        below = f"{place} RLIKE {_text(f'{_ANY_SYSTEM}{re.escape(fixed)}/')}"
        found = f"{read} OR NOT ({below})"
        if is_uri(self.pattern or self.base):
            return found
        # Cheap, and true for nearly every file: it is in the directory itself.
        start = f"file://{'/'.join(encoded(part) for part in fixed.split('/'))}/"
        here = f"locate('/', {self.path}, {len(start) + 1}) = 0"
        return f"(startswith({self.path}, {_text(start)}) AND {here}) OR {found}"

    @property
    def misplaced(self) -> str:
        """True for every row of a file that does not lie where it should."""
        if self.keys is None:
            return f"NOT ({self._keyed_only} AND ({self._at_home}))"
        return f"NOT ({self._at_home})"

    @property
    def wrong_value(self) -> str:
        """The first column whose value in the name of a folder does not fit its type; null if all do."""
        wrong = [
            f"WHEN {self._is_wrong(key or column.name, column)} THEN {_text(column.name)}"
            for column in self.columns
            if (key := self._key_of(column)) or self._may_be_folder(column)
        ]
        return f"CASE {' '.join(wrong)} END" if wrong else "CAST(NULL AS string)"

    @property
    def _at_home(self) -> str:
        at_home = " AND ".join(
            [
                f"regexp_count({self.path}, {_text(_KEYED)}) = {self._expected}",
                *(self._has(key) for key in self.keys or ()),
            ]
        )
        if not self.keys and "=" not in self.base:
            # Cheap, and true for nearly every file.
            return f"instr({self.path}, '=') = 0 OR {at_home}"
        return at_home

    @property
    def _keyed_only(self) -> str:
        return f"{self.path} RLIKE {_text(_quoted_base(self.base) + _KEY_FOLDERS + '/[^/]+$')}"

    @property
    def selected(self) -> list[str]:
        """The declared columns in their order."""
        pairs = zip(self.values, self.columns, strict=True)
        return [f"{value} AS {backticked(column.name)}" for value, column in pairs]

    @property
    def values(self) -> list[str]:
        """The value of each declared column, in their order."""
        return [self._value(column) for column in self.columns]

    @property
    def _expected(self) -> str:
        around = len(re.findall(_KEYED, self.base + "/"))
        if self.keys is not None or not self.by_name:
            return str(around + len(self.keys or ()))
        named = (f"CAST({self._has(each.name)} AS int)" for each in self.columns if fits_a_folder(each))
        return " + ".join([str(around), *named])

    def _key_of(self, column: Column) -> str | None:
        return next((key for key in self.keys or () if key.lower() == column.name.lower()), None)

    def _value(self, column: Column) -> str:
        key = self._key_of(column)
        if key is not None:
            return self._from_folder(key, column)
        if self._may_be_folder(column):
            has, folder = self._has(column.name), self._from_folder(column.name, column)
            return f"if({has}, {folder}, {backticked(column.name)})"
        return backticked(column.name)

    def _may_be_folder(self, column: Column) -> bool:
        return self.keys is None and self.by_name and fits_a_folder(column)

    def _from_folder(self, key: str, column: Column) -> str:
        raw, typed = self._raw_and_typed(key, column)
        if not self.validated:
            fails = f"raise_error(concat('{WRONG_VALUE} ', {_text(self.source)}, ' ', {self.path}))"
            typed = f"coalesce({typed}, {fails})"
        return f"if({raw} = '{NO_VALUE}', CAST(NULL AS {column.type}), {typed})"

    def _is_wrong(self, key: str, column: Column) -> str:
        raw, typed = self._raw_and_typed(key, column)
        return f"{self._has(key)} AND {raw} <> '{NO_VALUE}' AND {typed} IS NULL"

    def _raw_and_typed(self, key: str, column: Column) -> tuple[str, str]:
        raw = f"regexp_extract({self.path}, {_text(f'.*/{re.escape(encoded(key))}=([^/]*)/')}, 1)"
        once = f"url_decode(replace({raw}, '+', '%2B'))"
        # The path is an address, and folders are escaped in the way of Hive besides.
        value = f"coalesce(try_url_decode(replace({once}, '+', '%2B')), {once})"
        return raw, f"try_cast({value} AS {column.type})"

    def _has(self, key: str) -> str:
        return f"instr({self.path}, {_text(f'/{encoded(key)}=')}) > 0"


def named_safely(source: str) -> str:
    """SQL: true for a path that Spark can't take for a glob; it fails the query otherwise.

    For each path with such a character, Spark 4.1 reads all files of a batch once more.
    """
    fails = f"raise_error(concat('{WRONG_NAME} ', {_text(source)}, ' ', {PATH}))"
    return f"CASE WHEN {PATH} RLIKE r'[*]|%(5B|5C|5D|7B|7D|3F)' THEN {fails} ELSE true END"


def encoded(text: str) -> str:
    """A name as it stands in the path of a file: an address, in which letters of any language stay."""
    return "".join(each if ord(each) > 127 else quote(each, safe=_SAFE) for each in text)


def _quoted_base(base: str) -> str:
    """A pattern for the directory in the address of a file, from its beginning."""
    path = "/".join(encoded(part) for part in path_in(base).rstrip("/").split("/"))
    return _ANY_SYSTEM + re.escape(path)


def _text(text: str) -> str:
    if "'" not in text:
        return f"r'{text}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# What lies in a folder before the first batch: counted quickly, and not to the end of a very full one.

MOST = 20_000
"""So many files of a path are looked at; that is a fraction of a second."""

KEYS = {"max_files_per_batch": "maxfilespertrigger", "max_bytes_per_batch": "maxbytespertrigger"}
"""What limits a batch, each with the option of Spark that it is."""


def waiting_at(
    globs: Iterable[str], limits: Mapping[str, int | None], options: Mapping[str, OptionValue]
) -> Waiting | None:
    """What is to be read there under these limits; None for what is on no disk of this machine."""
    if any(is_uri(glob) for glob in globs):
        return None
    listed = [islice(files_at(glob, lenient=True), MOST + 1) for glob in globs]
    found = [[stat.st_size for _, stat in each] for each in listed]
    key, limit = _limit(limits, options)
    return Waiting(
        files=sum(min(len(each), MOST) for each in found),
        bytes=sum(sum(each[:MOST]) for each in found),
        more=any(len(each) > MOST for each in found),
        keys=tuple(KEYS),
        limit=key,
        at_most=limit,
        # Each path is read by itself, so that the fullest one decides.
        batches=max((_batches(key, limit, each) for each in found), default=1),
    )


def files_at(pattern: str, *, lenient: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """The files that a stream over a path would read; where `lenient`, of the folders that can be listed."""
    for start in local_matches(pattern):
        if os.path.isdir(start):
            yield from _below(start, lenient)
        elif not is_hidden(os.path.basename(start)):
            yield start, os.stat(start)


def _below(folder: str, lenient: bool) -> Iterator[tuple[str, os.stat_result]]:
    """In a folder and in its key=value folders; nothing is read from others."""
    try:
        entries = os.scandir(folder)
    except OSError:
        if lenient:
            return
        raise
    with entries:
        for entry in entries:
            # One may have been there a moment ago.
            with suppress(FileNotFoundError):
                if is_hidden(entry.name):
                    continue
                if not entry.is_dir():
                    yield entry.path, entry.stat()
                elif "=" in entry.name:
                    yield from _below(entry.path, lenient)


def ignored_at(globs: Iterable[str]) -> tuple[str, ...]:
    """The directories below these paths that are not read, as far as a quick look finds them."""
    starts = [start for glob in globs if not is_uri(glob) for start in local_matches(glob)]
    return tuple(sorted({found for start in starts for found in islice(_ignored(start), MOST)}))


def _ignored(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            below = [
                each.path for each in islice(entries, MOST) if each.is_dir() and not is_hidden(each.name)
            ]
    except OSError:
        # A file, or a directory that can't be listed: Spark says so where it matters.
        return
    # Beside key=value directories, a file in another one fails the query.
    if not any("=" in os.path.basename(each) for each in below):
        yield from below


def _limit(limits: Mapping[str, int | None], options: Mapping[str, OptionValue]) -> tuple[str, int]:
    given = {name.lower(): value for name, value in options.items()}
    for key, option in KEYS.items():
        written = str(given.get(option, ""))
        limit = limits.get(key) or (int(written) if written.isdigit() else 0)
        if limit:
            return key, limit
    return "", 0


def _batches(key: str, limit: int, found: list[int]) -> int:
    taken = sum(found) if key == "max_bytes_per_batch" else len(found)
    return max(1, -(-taken // limit)) if limit else 1
