"""Running a pipeline: start, supervise, stop; the lock and the record beside each checkpoint."""

from headwater.runtime.handles import Query, Run
from headwater.runtime.scope import RunOptions
from headwater.runtime.start import start

__all__ = ["Query", "Run", "RunOptions", "start"]
