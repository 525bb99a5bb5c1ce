"""Access to Spark internals: its JVM, its errors, and the private names that Headwater uses."""
