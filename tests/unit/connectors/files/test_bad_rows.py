"""What can't be asked of a files source about bad rows; and how texts and files are found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.connectors.files.bad_rows import admits, has_texts, validates
from headwater.connectors.files.options import FilesSource
from headwater.connectors.files.validity import address_of, element
from headwater.errors import PipelineError
from headwater.loaders.yaml_form import YamlFile
from headwater.values import BadRows

PIPELINE = """
name: p
sources:
  s: {{connector: files, path: ., {keys}}}
sinks:
  out: {{reads: s, connector: noop}}
"""


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ("format: json, schema: {a: int}, static: true, bad_rows: drop", "bad_rows"),
        ("format: json, schema: {a: int not null}, static: true", "schema"),
        ("format: parquet, schema: {a: int}, bad_rows: keep", "bad_rows"),
        ("format: orc, schema: {a: int}, max_row_bytes: 10", "max_row_bytes"),
        ("format: csv, schema: {a: int}, multi_line: true, max_row_bytes: 10", "max_row_bytes"),
        ("format: csv, schema: {a: int}, bad_rows: drop, options: {mode: PERMISSIVE}", "mode"),
        ("format: json, schema: {a: int}, bad_rows: keep, options: {basePath: /x}", "basePath"),
        (
            "format: avro, schema: {a: int}, bad_rows: quarantine, options: {modifiedAfter: '2026-01-01'}",
            "modifiedAfter",
        ),
    ],
)
def test_what_can_not_be_is_refused_at_load(keys: str, key: str, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(PIPELINE.format(keys=keys))
    with pytest.raises(PipelineError) as refused:
        YamlFile.read(file).spec()
    assert [(p.code, p.params["key"]) for p in refused.value.problems] == [
        ("HW-FILES-BAD-ROWS-UNSUPPORTED", key)
    ]


def test_other_stores_are_refused_where_files_are_opened_first(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yml"
    keys = "format: parquet, schema: {a: int}, bad_rows: drop"
    file.write_text(PIPELINE.format(keys=keys).replace("path: .", "path: s3a://bucket/x"))
    with pytest.raises(PipelineError) as refused:
        YamlFile.read(file).spec()
    assert [p.code for p in refused.value.problems] == ["HW-FILES-BAD-ROWS-UNSUPPORTED"]


def source(**keys: object) -> FilesSource:
    return FilesSource.model_validate({"path": "x", "schema": {"a": "int"}, **keys})


def test_which_sources_judge_and_which_open_files_first() -> None:
    plain = source(format="json")
    assert [validates(plain, each) for each in BadRows] == [False, True, True, True]
    assert validates(source(format="json", schema={"a": "int not null"}), BadRows.FAIL)
    assert [admits(source(format="parquet"), each) for each in BadRows] == [False, True, False, True]
    assert admits(source(format="csv", header=True), BadRows.DROP)
    assert not admits(source(format="csv"), BadRows.DROP)


def test_rows_have_texts_of_their_own_where_lines_are_utf_8() -> None:
    assert has_texts(source(format="json"), admitted=False)
    assert has_texts(source(format="csv", header=True), admitted=True)
    assert not has_texts(source(format="csv", header=True), admitted=False)
    assert not has_texts(source(format="json", encoding="UTF-16"), admitted=False)
    assert not has_texts(source(format="parquet"), admitted=True)


def test_elements_are_found_whole_and_none_is_lost() -> None:
    text = "<rows><!-- <r>0</r> --><r>1</r><rr/><r a='>'/>\n<r x=\"1\"><b/></r><r/><r>cut"
    found = re.findall(element("r").replace(r"\z", r"\Z"), text)
    assert found == ["<!-- <r>0</r> -->", "<r>1</r>", "<r a='>'/>", '<r x="1"><b/></r>', "<r/>", "<r>cut"]


def test_addresses_are_spelled_as_spark_spells_them() -> None:
    assert address_of(Path("/a b/k=ü+/100%.json")) == "file:///a%20b/k=ü+/100%25.json"
