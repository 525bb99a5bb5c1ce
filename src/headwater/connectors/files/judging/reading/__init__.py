"""The files of a source, read so that each row has a verdict."""
