"""Partition directories named `key=value`, which become columns; Spark's handling of them is not safe in streams.

Spark discovers such directories once at the start and again in the files of each batch, and combines the two by
position. A directory that is added later can fill the wrong column, a different key can fill a declared column,
and a file next to the directories can be skipped, all silently. So for streams, Headwater derives the columns
from the path of each file, and a file in different partition directories fails the query.
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
"""Spark's metadata about the file of a row, without the extra field of Parquet files."""
FILE_OF_ROW = f"struct({', '.join(f'_metadata.{each}' for each in FILE_FIELDS)}) AS {METADATA}"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name of a partition without a value."""

_OPTIONS = ("basepath", "recursivefilelookup")
_KEYED = r"/[^/=]+=[^/]*(?=/)"
_KEY_FOLDERS = "(/[^/=]+=[^/]*)*"
_FILE_SYSTEM = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//[^/]*)?(?=/|$)")
_ANY_SYSTEM = "^[^/]*(?://[^/]*)?"
_SAFE = "!$&'()*+,;=:@~-._"


def is_left_to_spark(options: Iterable[str]) -> bool:
    """Whether the user's options leave the directories to Spark."""
    return any(option.lower() in _OPTIONS for option in options)


def may_add_columns(paths: Iterable[str], options: Iterable[str]) -> bool:
    """Whether the rows may have more columns than declared; True if unknown."""
    return is_left_to_spark(options) or any(is_uri(path) for path in paths)


def base_of(path: str, root: str, columns: Iterable[str]) -> str:
    """The directory below which key=value directories count: before a glob, and before a declared key."""
    known, base = {column.lower() for column in columns}, list[str]()
    inside = in_project(path, Path(root))
    for part in inside.split("/"):
        name, rest = split_fixed(part)
        if rest or (part.partition("=")[0].lower() in known and "=" in part):
            break
        base.append(name)
    return path.removesuffix(inside) + "/".join(base) or "/"


def common_base(paths: Iterable[str], root: Path) -> str | None:
    """The directory below which key=value directories count for all paths; None if Spark finds it.

    Spark finds it if there is no pattern; paths on several file systems have none.
    """
    bases = {path: base_of(path, str(root), ()) for path in paths}
    if all(path == base for path, base in bases.items()):
        return None
    parts = zip(*(base.split("/") for base in bases.values()), strict=False)
    same = [part[0] for part in takewhile(lambda part: len(set(part)) == 1, parts)]
    return ("/".join(same) or "/") if same else None


Lister = Callable[[str], Iterable[tuple[str, str]]]
"""Every file below the matches of a pattern, each with the directory or file that matched."""


def look(pattern: str, base: str, files: Lister) -> dict[tuple[str, ...], str]:
    """The partition keys of the existing files, as Spark lists them, each with one of the files."""
    examples: dict[tuple[str, ...], str] = {}
    for start, file in files(pattern):
        folders = path_in(file).removeprefix(path_in(base)).split("/")[:-1]
        keys = tuple(unquote(folder.partition("=")[0]) for folder in folders if "=" in folder)
        # Without any key, Spark reads only the files in the directory itself.
        if keys or start in (file, os.path.dirname(file)):
            examples.setdefault(keys, file)
    return examples


def path_in(address: str) -> str:
    """The path without its file system."""
    return _FILE_SYSTEM.sub("", address, count=1)


def local_files(pattern: str) -> Iterator[tuple[str, str]]:
    """What Spark would list on this machine; an empty directory is returned without a file name."""
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
    """Whether a directory name can represent a value of the column's type."""
    return not column.type.startswith(("array<", "binary", "map<", "struct<", "variant"))


@dataclass(frozen=True)
class Folders:
    """How the files below one path get their columns, as SQL over Spark's rows."""

    source: str
    base: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] | None
    """The partition keys as spelled in the path; None if there were no files at the start."""
    pattern: str = ""
    """The declared path as a glob; without one, the base."""
    by_name: bool = True
    """The format finds columns by name, so a column can come from the file or from a directory."""
    path: str = PATH
    """The column with the address of the file."""
    validated: bool = False
    """An invalid partition value is null and reported by `wrong_value`; otherwise it fails the query."""

    @property
    def inside(self) -> tuple[Column, ...]:
        """The columns stored in the files."""
        return tuple(column for column in self.columns if self._key_of(column) is None)

    @property
    def guard(self) -> str:
        """True for every row of a file in the expected directories; fails the query otherwise."""
        fails = f"raise_error(concat('{WRONG_FOLDER} ', {_text(self.source)}, ' ', {self.path}))"
        checked = f"CASE WHEN {self._at_home} THEN true ELSE {fails} END"
        if self.keys is None:
            # Nothing is read below a directory that is not key=value. A file outside of the base was listed
            # for an unknown reason, and is not skipped silently.
            below = f"{self.path} RLIKE {_text(_quoted_base(self.base) + '/')}"
            return f"CASE WHEN {self._keyed_only} THEN {checked} WHEN {below} THEN false ELSE {fails} END"
        return checked

    @property
    def is_read(self) -> str:
        """False for a file below a directory that the source ignores; `misplaced` checks the others.

        Spark applies it to the listed files and does not open those for which it is false. A file outside of
        the base was listed for a different reason, and is not ignored.
        """
        if self.keys:
            return "true"
        pattern, fixed = self._pattern_and_start
        # A glob matches plain characters, but some are encoded in an address. In the address of a replayed row,
        # they may not be.
        plain = f"try_url_decode(replace({self.path}, '+', '%2B'))"
        place = f"if(instr({self.path}, '%') > 0, coalesce({plain}, {self.path}), {self.path})"
        matched = rf"(?s){_ANY_SYSTEM}(?:{read_matcher(pattern).pattern})\z"
        read = f"{place} RLIKE {_text(matched)}"
        below = f"{place} RLIKE {_text(f'{_ANY_SYSTEM}{re.escape(fixed)}/')}"
        found = f"{read} OR NOT ({below})"
        if is_uri(self.pattern or self.base):
            return found
        # Cheap, and true for almost every file: it is in the directory itself.
        start = f"file://{'/'.join(encoded(part) for part in fixed.split('/'))}/"
        here = f"locate('/', {self.path}, {len(start) + 1}) = 0"
        return f"(startswith({self.path}, {_text(start)}) AND {here}) OR {found}"

    @property
    def _pattern_and_start(self) -> tuple[str, str]:
        """The declared path as a glob, and the directory before its first special character."""
        pattern = path_in(self.pattern or escaped(self.base))
        return pattern, split_fixed(pattern)[0].rstrip("/")

    @property
    def file_filter(self) -> dict[str, str]:
        """Reader options for the class that checks the same once per listed file, not per row; without keys.

        A file in unexpected directories then fails the query before its batch is planned. Spark converts the
        names of options to lower case.
        """
        pattern, fixed = self._pattern_and_start
        return {
            "headwater.files.directory": f"{fixed}/",
            "headwater.files.read": read_matcher(pattern).pattern,
            "headwater.files.below": f"{re.escape(fixed)}/",
            "headwater.files.keys": str(self._keys_in_base),
            "headwater.files.failure": f"[USER_RAISED_EXCEPTION] {WRONG_FOLDER} {self.source}",
        }

    @property
    def misplaced(self) -> str:
        """True for every row of a file in unexpected directories."""
        if self.keys is None:
            return f"NOT ({self._keyed_only} AND ({self._at_home}))"
        return f"NOT ({self._at_home})"

    @property
    def wrong_value(self) -> str:
        """The first column whose partition value does not match its type; null if all match."""
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
            # Cheap, and true for almost every file.
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
    def _keys_in_base(self) -> int:
        return len(re.findall(_KEYED, self.base + "/"))

    @property
    def _expected(self) -> str:
        around = self._keys_in_base
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
        # The path is an address, and Hive also escapes directory names.
        value = f"coalesce(try_url_decode(replace({once}, '+', '%2B')), {once})"
        return raw, f"try_cast({value} AS {column.type})"

    def _has(self, key: str) -> str:
        return f"instr({self.path}, {_text(f'/{encoded(key)}=')}) > 0"


def named_safely(source: str) -> str:
    """SQL: true for a path that Spark cannot mistake for a glob; fails the query otherwise.

    For each path with a special character, Spark 4.1 reads all files of a batch again.
    """
    fails = f"raise_error(concat('{WRONG_NAME} ', {_text(source)}, ' ', {PATH}))"
    return f"CASE WHEN {PATH} RLIKE r'[*]|%(5B|5C|5D|7B|7D|3F)' THEN {fails} ELSE true END"


def encoded(text: str) -> str:
    """A name as in the address of a file, where letters of any language are not encoded."""
    return "".join(each if ord(each) > 127 else quote(each, safe=_SAFE) for each in text)


def _quoted_base(base: str) -> str:
    """A pattern for the directory at the start of the address of a file."""
    path = "/".join(encoded(part) for part in path_in(base).rstrip("/").split("/"))
    return _ANY_SYSTEM + re.escape(path)


def _text(text: str) -> str:
    if "'" not in text:
        return f"r'{text}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


# The backlog of a directory before the first batch: counted quickly, up to a maximum.

MOST = 20_000
"""The maximum number of files that are counted per path; it takes a fraction of a second."""

KEYS = {"max_files_per_batch": "maxfilespertrigger", "max_bytes_per_batch": "maxbytespertrigger"}
"""The keys that limit a batch, each with its Spark option."""


def waiting_at(
    globs: Iterable[str], limits: Mapping[str, int | None], options: Mapping[str, OptionValue]
) -> Waiting | None:
    """The backlog under these limits; None if it is not on a local disk."""
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
        # Each path is read separately, so the largest one determines the number.
        batches=max((_batches(key, limit, each) for each in found), default=1),
    )


def files_at(pattern: str, *, lenient: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """The files that a stream over a path would read; `lenient` skips directories that cannot be listed."""
    for start in local_matches(pattern):
        if os.path.isdir(start):
            for entry in _below(start, lenient):
                # It may have just been deleted.
                with suppress(FileNotFoundError):
                    yield entry.path, entry.stat()
        elif not is_hidden(os.path.basename(start)):
            yield start, os.stat(start)


def paths_at(pattern: str) -> Iterator[str]:
    """The same files by path only, which is much faster for a directory with many files."""
    for start in local_matches(pattern):
        if os.path.isdir(start):
            yield from (each.path for each in _below(start, lenient=False))
        elif not is_hidden(os.path.basename(start)):
            yield start


def _below(folder: str, lenient: bool) -> Iterator[os.DirEntry[str]]:
    """The files in a directory and in its key=value directories; others are not read."""
    try:
        entries = os.scandir(folder)
    except OSError:
        if lenient:
            return
        raise
    with entries:
        for entry in entries:
            # A directory may have just been deleted.
            with suppress(FileNotFoundError):
                if is_hidden(entry.name) or _leads_nowhere(entry):
                    continue
                if not entry.is_dir():
                    yield entry
                elif "=" in entry.name:
                    yield from _below(entry.path, lenient)


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Whether this is a link without a target; Spark does not list it."""
    return entry.is_symlink() and not os.path.exists(entry.path)


def ignored_at(globs: Iterable[str]) -> tuple[str, ...]:
    """The directories below these paths that are not read, as far as a quick look finds them."""
    starts = [start for glob in globs if not is_uri(glob) for start in local_matches(glob)]
    return tuple(sorted({found for start in starts for found in islice(_ignored(start), MOST)}))


def _ignored(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            below = [
                each.path
                for each in islice(entries, MOST)
                if not _leads_nowhere(each) and each.is_dir() and not is_hidden(each.name)
            ]
    except OSError:
        # A file, or a directory that cannot be listed: Spark reports it if it matters.
        return
    # Next to key=value directories, a file in any other directory fails the query.
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
