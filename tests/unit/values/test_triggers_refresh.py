"""When a static source looks for changed files, as people write it."""

import pytest
from pydantic import BaseModel, ValidationError

from headwater.values import Duration, Every, EveryBatch, Never, Refresh, RefreshField, parse_refresh


@pytest.mark.parametrize(
    ("text", "refresh", "written"),
    [
        ("never", Never(), "never"),
        (" Every  Batch ", EveryBatch(), "every batch"),
        ("every 10 minutes", Every(Duration(600_000)), "every 10 minutes"),
        ("every 90s", Every(Duration(90_000)), "every 1 minute 30 seconds"),
    ],
)
def test_reads_and_writes(text: str, refresh: Refresh, written: str) -> None:
    assert parse_refresh(text) == refresh
    assert str(refresh) == written
    assert parse_refresh(written) == refresh


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10 minutes", "did you mean `every 10 minutes`?"),
        ("every_batch", "did you mean `every batch`?"),
        ("nevr", "did you mean `never`?"),
        ("every 0 seconds", "write `every batch`."),
        ("every 10", "has no unit"),
        ("every", "is not a refresh interval"),
        ("sometimes", "write `never`, `every batch` or `every 10 minutes`"),
    ],
)
def test_refuses_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_refresh(text)
    assert hint in str(refused.value)


class Holder(BaseModel):
    refresh: RefreshField = Never()


def test_is_read_from_text_and_written_as_text() -> None:
    assert Holder(refresh="every batch").refresh == EveryBatch()  # type: ignore[arg-type]
    assert Holder(refresh=Every(Duration(1_000))).model_dump(mode="json") == {"refresh": "every 1 second"}
    with pytest.raises(ValidationError):
        Holder(refresh=10)  # type: ignore[arg-type]
