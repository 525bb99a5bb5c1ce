"""What Spark and others call the keys of files, where the names differ by more than case and punctuation."""

from __future__ import annotations

PLACES = {"directory": "path", "folder": "path", "location": "path", "paths": "path"}
READ = {
    **PLACES,
    "charset": "encoding",
    "cleanSource": "clean_up",
    "columns": "schema",
    "maxBytesPerTrigger": "max_bytes_per_batch",
    "maxFilesPerTrigger": "max_files_per_batch",
    "sep": "delimiter",
    "sourceArchiveDir": "archive_to",
}
WRITTEN = {
    **PLACES,
    "codec": "compression",
    "partition_columns": "partition_by",
    "partitioned_by": "partition_by",
    "sep": "delimiter",
}
