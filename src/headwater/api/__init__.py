"""One function per command, returning result objects."""
