"""Rows of files with a verdict each, and the admission of files that can be opened."""
