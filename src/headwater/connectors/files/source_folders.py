"""The key=value folders of a declared source: what is there at the start, held against its schema."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.connectors.context import Context
from headwater.connectors.files.options import FilesSource
from headwater.connectors.files.partition_folders import Folders, Lister, base_of, fits_a_folder, look
from headwater.errors import PipelineError
from headwater.errors.catalogue.files_source import FILES_KEY_NOT_NAMED, FILES_KEY_TYPE, FILES_KEYS_DIFFER
from headwater.spec import Column
from headwater.spec.globs import is_pattern
from headwater.spec.paths import as_glob, in_project


def folders_of(
    path: str,
    options: FilesSource,
    columns: tuple[Column, ...],
    context: Context,
    files: Lister,
    *,
    sifted: bool = False,
) -> Folders:
    """How the files below a path get their columns; PipelineError where that is not one way for all.

    Files in folders whose keys are no columns are left out of it where each row is `sifted`.
    """
    base = base_of(path, str(context.root), (column.name for column in columns))
    pattern = as_glob(path, context.root)
    examples = look(pattern, base, files)
    if sifted:
        known = {column.name.lower() for column in columns}
        fitting = {keys: file for keys, file in examples.items() if known >= {key.lower() for key in keys}}
        examples = fitting or examples
    keys = _keys(examples, columns, context)
    if keys is None and options.format == "text" and len(columns) > 1:
        # Only one column of a text file stands in the file.
        names = [column.name for column in columns]
        inside = "value" if "value" in names else names[0]
        keys = tuple(name for name in names if name != inside)
    if keys is None and is_pattern(in_project(path, context.root)):
        keys = ()
    by_name = options.format not in ("csv", "text")
    return Folders(context.name, base, columns, keys, pattern, by_name=by_name)


def _keys(
    examples: Mapping[tuple[str, ...], str], columns: tuple[Column, ...], context: Context
) -> tuple[str, ...] | None:
    """The keys of all files; none where they lie in no such folder, None where nothing is there."""
    different = {frozenset(key.lower() for key in keys): file for keys, file in examples.items()}
    if len(different) > 1:
        one, other = sorted(different.values())[:2]
        raise PipelineError(FILES_KEYS_DIFFER.at(context.at("path"), name=context.name, one=one, other=other))
    by_name = {column.name.lower(): column for column in columns}
    for keys, file in examples.items():
        for key in keys:
            column = by_name.get(key.lower())
            if column is None:
                place = context.at("schema")
                raise PipelineError(FILES_KEY_NOT_NAMED.at(place, name=context.name, key=key, file=file))
            if not fits_a_folder(column):
                place = context.at("schema", column.name)
                raise PipelineError(FILES_KEY_TYPE.at(place, name=context.name, key=key, type=column.type))
    return next(iter(examples), None)
