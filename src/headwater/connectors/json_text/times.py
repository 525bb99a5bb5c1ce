"""How times are written into JSON."""

from __future__ import annotations

TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's options for all digits of a time; by itself it cuts them to milliseconds."""
