"""The schema command."""

from headwater.api.schema import schema
from headwater.loaders.json_schema import pipeline_schema


def test_the_schema_is_that_of_the_loaders() -> None:
    assert schema() == pipeline_schema()
