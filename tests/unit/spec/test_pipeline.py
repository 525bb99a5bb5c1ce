"""Specs are values: immutable, equal by content, whatever the order and place of declaration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headwater.connectors.trial import RateSource
from headwater.spec import FunctionRef, PipelineSpec, SourceSpec, TableSpec
from headwater.spec.references import function_of
from headwater.values import Position, TextPosition


def source(name: str, line: int = 1, **keys: Any) -> SourceSpec:
    options = RateSource(rows_per_second=keys.pop("rows", 1))
    return SourceSpec(name=name, connector="rate", options=options, position=Position("p.yml", line), **keys)


def pipeline(*sources: SourceSpec, **keys: Any) -> PipelineSpec:
    return PipelineSpec(name="p", root=Path("/p"), run_dir=Path("/p/.headwater"), sources=sources, **keys)


def test_place_and_order_are_no_part_of_what_is_declared() -> None:
    here, there = source("a", 1), source("a", 9)
    assert here == there
    assert hash(here) == hash(there)
    assert pipeline(here, source("b"), declared_in="a") == pipeline(source("b"), there, declared_in="b")


def test_content_counts() -> None:
    assert source("a") != source("b")
    assert source("a") != source("a", rows=2)
    assert source("a") != source("a", static=True)
    assert pipeline(source("a")) != pipeline(source("a"), source("b"))
    assert pipeline(timezone="UTC") != pipeline(timezone="Europe/Berlin")


def test_a_spec_can_not_be_changed() -> None:
    with pytest.raises(ValidationError):
        source("a").name = "b"


def test_a_function_is_its_file_and_name() -> None:
    bare = FunctionRef("/p/a.py", "f")
    assert bare == FunctionRef("/p/a.py", "f", ("x",), print, Position("p.yml", 3))
    assert (str(bare), bare != FunctionRef("/p/a.py", "g")) == ("/p/a.py:f", True)


def test_sources_and_tables_share_one_name_space() -> None:
    text = TextPosition(Position("p.yml", 3))
    spec = pipeline(source("a"), tables=(TableSpec(name="b", sql="SELECT 1", text=text),))
    assert spec.names == ("a", "b")
    assert [thing.name for thing in spec.connected] == ["a"]


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@plainly
@plainly
def decorated(clicks: Any) -> Any:
    return clicks


def test_a_function_is_defined_at_its_def_and_not_at_its_decorators() -> None:
    first = decorated.__code__.co_firstlineno
    assert function_of(decorated).defined == Position(__file__, first + 2)
    assert function_of(plainly).defined == Position(__file__, plainly.__code__.co_firstlineno)
