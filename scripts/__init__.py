"""The tools of this repository. The Makefile runs them as `python -m scripts.<name>`."""
