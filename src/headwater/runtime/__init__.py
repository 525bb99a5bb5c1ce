"""Running a pipeline: start, supervise and stop its queries; locks and records of each checkpoint.

Loading this loads no PySpark: a start launches the JVM first. The handles are in `runtime.handles`.
"""

from headwater.runtime.scope import RunOptions
from headwater.runtime.start import start

__all__ = ["RunOptions", "start"]
