"""Java, the JVM and everything that talks to Spark."""
