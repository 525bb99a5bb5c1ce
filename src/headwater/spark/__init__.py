"""Spark's private side: its JVM, its errors, and the names of its own that Headwater reaches for."""
