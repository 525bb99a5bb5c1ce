"""The repository's own tools, called by the Makefile as `python -m scripts.<name>`."""
