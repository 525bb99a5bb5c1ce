"""Which numbers of schemas a source has found known or unknown: notes in the run folder."""

from __future__ import annotations

from pathlib import Path

from headwater.connectors.decoding.reading import UNKNOWN


def decisions(folder: Path, source: str) -> Path:
    """Where the run folder has the notes of a source."""
    return folder / "registry" / source


def ask_again(folder: Path, source: str) -> None:
    """Forget which numbers were unknown, so that the registry is asked for them once more."""
    for note in decisions(folder, source).glob("*/[0-9]*"):
        if note.read_text("utf-8") == UNKNOWN:
            note.unlink()
