"""The command line, called in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from headwater.cli.main import main


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Headwater = Callable[..., Answer]


@pytest.fixture
def headwater(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headwater:
    """Call `headwater` with arguments."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["headwater", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return Answer(code, captured.out, captured.err)

    return call
