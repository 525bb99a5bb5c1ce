"""Addresses, names and patterns that rows and files are found by, as plain text and as SQL."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.connectors.files.partition_folders import encoded

TEXT, ADDRESS, CORRUPT, REJECTED = "__hw_text", "__hw_address", "__hw_corrupt", "__hw_rejected"

UNDECODED = "\ufffd"
"""What Spark's readers put in place of bytes that are no text."""
NOT_TEXT = "its bytes are not valid text"

# Characters above those of one byte, which no line that is read byte by byte can have: the line is one value.
WHOLE_LINE = {
    "header": "true",
    "encoding": "ISO-8859-1",
    "sep": "Ā",
    "quote": "ā",
    "escape": "Ă",
    "nullValue": "ă",
    "maxCharsPerColumn": "-1",
}
_ODD = [chr(each) for each in range(1, 127) if chr(each) != "/" and encoded(chr(each)) != chr(each)]


def has_text(type_: str) -> bool:
    """Whether a value of the type is a text or has texts inside."""
    return "string" in type_ or "char(" in type_


def undecoded(column: str, type_: str) -> str:
    """SQL: whether a text of the column has what stands in place of bytes that are no text."""
    text = f"to_json({column})" if type_.startswith(("array<", "map<", "struct<")) else column
    return f"contains({text}, '{UNDECODED}')"


def address_of(file: Path) -> str:
    """The address of a local file, as Spark spells it."""
    return "file://" + "/".join(encoded(part) for part in str(file).split("/"))


def plain(address: str) -> str:
    """SQL: the path of a file from its address."""
    path = f"regexp_replace({address}, '^file:/+', '/')"
    return f"url_decode(replace({path}, '+', '%2B'))"


def address(path: str) -> str:
    """SQL: the address of a file from its path."""
    spelled = path
    # The sign of encoding comes first, or it would encode what was just written.
    for char in sorted(_ODD, key=lambda each: each != "%"):
        written = {"'": "\\'", "\\": "\\\\"}.get(char, char)
        spelled = f"replace({spelled}, '{written}', '{encoded(char)}')"
    return f"if(startswith({path}, '/'), concat('file://', {spelled}), {spelled})"


def row_start(tag: str) -> str:
    """A pattern for the beginning of an xml element that is a row."""
    return rf"<{re.escape(tag)}(?=[\s/>])"


def element(tag: str) -> str:
    """A pattern for the elements of an xml text that are rows; also for comments, which are none.

    An element that never ends is taken to the end of the text, so that it is set aside and not lost.
    """
    start = row_start(tag)
    attributes = r"""(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*"""
    return rf"(?s)<!--.*?-->|{start}{attributes}/>|{start}.*?(?:</{re.escape(tag)}\s*>|\z)"
