"""JSON of a row, in whatever it came."""
