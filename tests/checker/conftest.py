"""One JVM for all tests of the checker in this process."""

from tests.scripted.conftest import context, player

__all__ = ["context", "player"]
