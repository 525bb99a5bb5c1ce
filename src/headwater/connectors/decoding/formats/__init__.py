"""The formats that Spark reads by itself."""
