"""SVG as strings: elements, numbers and escaping."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

LETTER = 0.6
"""The width of an average letter, in sizes of the font."""
# XML has no way to write these characters at all.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def number(value: float) -> str:
    """To a tenth of a pixel; adding zero takes the sign off a zero."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def element(tag: str, content: str = "", /, **attributes: str | float) -> str:
    """One element; the content is SVG already, and `font_size` means `font-size`, `class_` means `class`."""
    texts = {name: value if isinstance(value, str) else number(value) for name, value in attributes.items()}
    written = "".join(
        f" {name.strip('_').replace('_', '-')}={quoteattr(_UNWRITABLE.sub('�', text))}"
        for name, text in texts.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def words(text: str) -> str:
    """Text as content of an element."""
    return escape(_UNWRITABLE.sub("�", text))


def label(x: float, y: float, text: str, /, **attributes: str | float) -> str:
    return element("text", words(text), x=x, y=y, **attributes)


def haloed(x: float, y: float, text: str, /, **attributes: str | float) -> str:
    """Text that stays readable on top of lines."""
    halo: dict[str, str | float] = {"paint_order": "stroke", "stroke": "#fff", "stroke_width": 3}
    return label(x, y, text, **halo, stroke_linejoin="round", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def rect(
    x: float, y: float, width: float, height: float, content: str = "", **attributes: str | float
) -> str:
    return element("rect", content, x=x, y=y, width=width, height=height, **attributes)


def points(tag: str, places: Iterable[tuple[float, float]], **attributes: str | float) -> str:
    """A polyline or a polygon."""
    return element(tag, points=" ".join(f"{number(x)},{number(y)}" for x, y in places), **attributes)


def group(parts: Iterable[str], **attributes: str | float) -> str:
    return element("g", "\n" + "\n".join(parts) + "\n", **attributes)


def width_of(text: str, size: float) -> float:
    """About how wide a text is; fonts differ, so rather too much."""
    return len(text) * size * LETTER
