"""What Spark, Flink, dbt and others call the keys of a pipeline file: written by habit, they suggest the key.

Case and punctuation do not count: `outputMode` stands for `output_mode`, too. A key that a part of the file
does not have is one at the top.
"""

from __future__ import annotations

OF_PIPELINES = {
    "inputs": "sources",
    "streams": "sources",
    "models": "tables",
    "queries": "tables",
    "transformations": "tables",
    "transforms": "tables",
    "views": "tables",
    "destinations": "sinks",
    "outputs": "sinks",
    "targets": "sinks",
    "udfs": "functions",
    "conf": "spark",
    "config": "spark",
    "configuration": "spark",
    "spark_conf": "spark",
    "spark_config": "spark",
    "checkpoint": "folder",
    "checkpoint_dir": "folder",
    "checkpoint_location": "folder",
    "run_dir": "folder",
    "storage": "folder",
    "session_timezone": "timezone",
    "multiple_watermark_policy": "watermark_policy",
    "libraries": "jars",
    "ignore": "accept",
    "suppress": "accept",
}
_WATERMARK = {
    "event_time": "watermark",
    "event_time_column": "watermark",
    "watermark_column": "watermark",
    "watermark_delay": "watermark",
    "with_watermark": "watermark",
}
OF_SOURCES = {
    **_WATERMARK,
    "kind": "connector",
    "type": "connector",
    "bad_records": "bad_rows",
    "bad_records_path": "bad_rows",
    "on_error": "bad_rows",
    "refresh_interval": "refresh",
    "checkpoint_location": "folder",
}
OF_TABLES = {
    **_WATERMARK,
    "query": "sql",
    "select": "sql",
    "statement": "sql",
    "code": "python",
    "function": "python",
    "dedup": "distinct",
    "deduplicate": "distinct",
    "drop_duplicates": "distinct",
    "unique": "distinct",
    "unique_key": "distinct",
    "from": "reads",
    "input": "reads",
    "source": "reads",
    "constraints": "expect",
    "expect_all": "expect",
    "expect_or_drop": "expect",
    "expect_or_fail": "expect",
    "expectations": "expect",
    "tests": "expect",
}
OF_SINKS = {
    "kind": "connector",
    "type": "connector",
    "from": "reads",
    "input": "reads",
    "source": "reads",
    "output_mode": "mode",
    "interval": "trigger",
    "processing_time": "trigger",
    "trigger_interval": "trigger",
    "checkpoint": "folder",
    "checkpoint_dir": "folder",
    "checkpoint_location": "folder",
}
OF_FUNCTIONS = {
    "code": "python",
    "function": "python",
    "java_class": "class",
    "return_type": "returns",
}
OF_WATERMARKS = {
    "event_time": "column",
    "field": "column",
    "timestamp": "column",
    "delay_threshold": "delay",
    "lateness": "delay",
    "threshold": "delay",
}
OF_EXPECTATIONS = {
    "condition": "check",
    "constraint": "check",
    "expression": "check",
    "action": "else",
    "on_violation": "else",
}
