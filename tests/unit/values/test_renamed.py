"""The table of old names: every new name in it exists."""

from __future__ import annotations

import pytest
from pydantic import BaseModel
from typer.main import get_command

from headwater.checks import all_rules
from headwater.cli.main import app
from headwater.connectors import all_connectors
from headwater.loaders.keys import PipelineKeys, TableKeys, known_keys
from headwater.spec.pipeline import ExpectationKeys, FunctionKeys
from headwater.values.renamed import CODES, KEYS, OPTIONS, renamed

NESTED = {"default", "fallback", "timestamp", "directory"}
"""Keys inside `start`, `end` and `registry`."""


def test_every_new_key_exists() -> None:
    sides = [side for each in all_connectors().values() for side in (each.source, each.sink) if side]
    models: tuple[type[BaseModel], ...] = (
        PipelineKeys,
        TableKeys,
        ExpectationKeys,
        FunctionKeys,
        *(side.options for side in sides),
    )
    known = {key for model in models for key in known_keys(model)} | NESTED
    assert {new.partition(".")[0] for names in KEYS.values() for new in names} - known == set()


def test_every_new_option_exists() -> None:
    def options(command: object) -> set[str]:
        inner = getattr(command, "commands", {}).values()
        own = {name for parameter in getattr(command, "params", ()) for name in parameter.opts}
        return own.union(*map(options, inner))

    assert {new for names in OPTIONS.values() for new in names} - options(get_command(app)) == set()


def test_every_new_code_exists_and_no_old_one() -> None:
    codes = {entry.code for rule in all_rules().values() for entry in rule.entries}
    assert set(CODES.values()) - codes == set()
    assert set(CODES) & codes == set()


@pytest.mark.parametrize(
    ("old", "known", "new"),
    [
        ("folder", {"run_dir"}, "run_dir"),
        ("folder", {"directory", "url"}, "directory"),
        ("folder", {"folder", "run_dir"}, None),
        ("compact_after", {"compaction"}, "compaction.min_files"),
        ("unheard_of", {"run_dir"}, None),
    ],
)
def test_the_new_name_is_one_that_is_known_here(old: str, known: set[str], new: str | None) -> None:
    assert renamed(old, known) == new
