"""Running a pipeline: start, supervise, stop; the lock and the record beside each checkpoint."""

from headwater.runtime.handles import Query, Run
from headwater.runtime.start import start
from headwater.runtime.supervisor import RunOptions

__all__ = ["Query", "Run", "RunOptions", "start"]
