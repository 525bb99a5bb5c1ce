"""Running a pipeline: start, supervise and stop its queries; locks and records of each checkpoint."""

from headwater.runtime.handles import Query, Run
from headwater.runtime.scope import RunOptions
from headwater.runtime.start import start

__all__ = ["Query", "Run", "RunOptions", "start"]
