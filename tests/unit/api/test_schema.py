"""The schema command."""

import pytest

from headwater.api.project import connector_reference, schema
from headwater.errors import UsageProblem
from headwater.loaders.json_schema import pipeline_schema


def test_the_schema_is_that_of_the_loaders() -> None:
    assert schema() == pipeline_schema()


def test_the_reference_of_a_connector_has_the_keys_of_both_sides() -> None:
    files, rate = connector_reference("files"), connector_reference("rate")
    assert files.source is not None
    assert files.sink is not None
    assert {"path", "format", "schema", "clean_up"} <= {key.name for key in files.source}
    assert [key.name for key in files.sink if key.required] == ["path", "format"]
    assert all(key.meaning for key in (*files.source, *files.sink))
    assert rate.sink is None


def test_an_unknown_connector_is_told_with_the_nearest_one() -> None:
    with pytest.raises(UsageProblem) as error:
        connector_reference("fils")
    (problem,) = error.value.problems
    assert (problem.code, problem.params["hint"]) == ("HW-NO-SUCH-CONNECTOR", "Did you mean `files`?")
