"""Where this user's caches lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Headwater's folder below the user's caches."""
    named = environ.get("XDG_CACHE_HOME", "")
    # The standard says that a relative path there is to be ignored.
    base = Path(named) if os.path.isabs(named) else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "headwater"
