"""Text files joined byte by byte: what stands around their rows, and the copying, through Hadoop's codecs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EDGE = 1 << 16
_ROOT = re.compile(rb"\s*(?:<\?xml.*?\?>)?\s*<([^\s<>/?!]+)[^<>]*>", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """What stands around the rows of a text file; files with the same frame can be joined."""

    suffix: str
    head: bytes = b""
    tail: bytes = b""
    odd: str = ""
    """The name of a file that is not as Spark writes it; it is joined to no other."""


def frame_of(name: str, format: str, options: Mapping[str, str], begin: bytes, end: bytes) -> Frame:
    """The frame of a file by its first and last bytes: a csv file's names, an xml file's root element."""
    suffix = "".join(Path(name).suffixes)
    odd = Frame(suffix, odd=name)
    if not begin:
        return Frame(suffix)
    if format == "xml":
        root = _ROOT.match(begin)
        tail = re.search(rb"\s*</" + re.escape(root[1]) + rb"\s*>\s*\Z", end) if root else None
        return Frame(suffix, root[0], tail[0]) if root and tail else odd
    given = {key.lower(): value for key, value in options.items()}
    line_end = given.get("linesep", "\n").encode()
    if not end.endswith(line_end):
        return odd
    if format != "csv" or given.get("header", "").lower() != "true":
        return Frame(suffix)
    names, found, _ = begin.partition(line_end)
    # A name with a line break in it goes on behind the first line.
    return Frame(suffix, names + found) if found and names.count(b'"') % 2 == 0 else odd


@dataclass(frozen=True)
class TextFiles:
    """Reads and joins text files, packed or not, on the driver; none is held in memory."""

    spark: Any
    format: str
    options: Mapping[str, str]

    def frame(self, file: Path) -> Frame:
        """What stands around the rows of a file."""
        length = self._length(file)
        edge = min(length, _EDGE)
        begin, end = self._at(file, 0, edge), self._at(file, length - edge, edge)
        return frame_of(file.name, self.format, self.options, begin, end)

    def join(self, files: list[Path], into: Path, frame: Frame) -> None:
        """Write one file with the rows of all, within the frame that they share."""
        with closing(self._packed(into)) as out:
            out.write(bytearray(frame.head))
            for file in files:
                rows = self._length(file) - len(frame.head) - len(frame.tail)
                if rows > 0:
                    with closing(self._unpacked(file)) as source:
                        self._bytes.copyLarge(source, out, len(frame.head), rows)
            out.write(bytearray(frame.tail))

    def _length(self, file: Path) -> int:
        """The length of what was packed."""
        with closing(self._unpacked(file)) as source:
            return int(self._bytes.consume(source))

    def _at(self, file: Path, start: int, length: int) -> bytes:
        with closing(self._unpacked(file)) as source:
            self._bytes.skipFully(source, start)
            return bytes(source.readNBytes(length))

    def _unpacked(self, file: Path) -> Any:
        source, codec = self._java.java.io.FileInputStream(str(file)), self._codec(file)
        return codec.createInputStream(source) if codec is not None else source

    def _packed(self, file: Path) -> Any:
        out, codec = self._java.java.io.FileOutputStream(str(file)), self._codec(file)
        return codec.createOutputStream(out) if codec is not None else out

    def _codec(self, file: Path) -> Any:
        """The codec that the name tells, None if it tells none."""
        hadoop = self._java.org.apache.hadoop
        conf = self.spark._jsparkSession.sessionState().newHadoopConf()
        return hadoop.io.compress.CompressionCodecFactory(conf).getCodec(hadoop.fs.Path(file.name))

    @property
    def _java(self) -> Any:
        return self.spark._jvm

    @property
    def _bytes(self) -> Any:
        return self._java.org.apache.commons.io.IOUtils
