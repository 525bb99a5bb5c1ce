"""The stored events of runs, their health and their metrics; readable while a run writes."""
