"""Sizes as people write them."""

import pytest
from pydantic import TypeAdapter, ValidationError

from headwater.values.sizes import Size

SIZE: TypeAdapter[int] = TypeAdapter(Size)


@pytest.mark.parametrize(
    ("written", "size"),
    [("512 MB", 512 << 20), ("1gb", 1 << 30), (" 3 KB ", 3072), ("7", 7), ("2 TB", 2 << 40), (9, 9)],
)
def test_reads(written: object, size: int) -> None:
    assert SIZE.validate_python(written) == size


@pytest.mark.parametrize("written", ["", "MB", "-1 MB", "1.5 GB", "5 PB", 0, "0 MB", None])
def test_anything_else_is_an_error(written: object) -> None:
    with pytest.raises(ValidationError):
        SIZE.validate_python(written)
