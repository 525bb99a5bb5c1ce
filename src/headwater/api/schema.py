"""`headwater schema`: the JSON Schema of pipeline files."""

from __future__ import annotations

from typing import Any

from headwater.loaders.json_schema import pipeline_schema


def schema() -> dict[str, Any]:
    """The schema of pipeline files, with every installed connector."""
    return pipeline_schema()
