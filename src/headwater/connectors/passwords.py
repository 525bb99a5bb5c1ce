"""A password among a connector's keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from headwater.values import Secret


def _only_secret(value: object) -> object:
    # The value is not in the message: it is most likely the password itself.
    if not isinstance(value, Secret):
        raise ValueError("for a password write ${secret:NAME} and set NAME in the environment")
    return value


Password = Annotated[Secret, BeforeValidator(_only_secret)]
"""Never the text itself; `Password | None` where it may be left out."""
