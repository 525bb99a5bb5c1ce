"""Plain PySpark programs: their queries caught before they start, and told as facts."""
