"""A notice: the text of before, with its code and what it is about."""

from __future__ import annotations

import json
from pathlib import Path

from headwater.errors.catalogue.notices import ALL_DATA_READ, TRIGGER_CONVERTED
from headwater.errors.catalogue.running import PROGRESS_LOST
from headwater.events import Notice


def test_a_notice_in_json_has_its_code_and_fields() -> None:
    converted = TRIGGER_CONVERTED.at(None, sink="out", following="batches", backup=Path("/b"))
    notice = Notice.of(converted).to_json()
    assert json.loads(json.dumps(notice)) == {
        "event": "notice",
        "version": 1,
        "at": notice["at"],
        "message": "out: converted the checkpoint to batches. The old files are in /b.",
        "hint": "",
        "code": "HW-TRIGGER-CONVERTED",
        "fields": {"sink": "out", "following": "batches", "backup": "/b"},
    }


def test_the_text_has_the_remedy_where_there_is_one_and_the_code_where_it_is_wanted() -> None:
    lost = PROGRESS_LOST.at(None, sink="out", lost=2)
    assert Notice.of(ALL_DATA_READ.at(None)).text == "No more data to read."
    assert (Notice.of(lost).message, Notice.of(lost).hint) == (lost.message, lost.hint)
    assert Notice.of(lost).text == f"HW-PROGRESS-LOST {lost.message} {lost.hint}"
