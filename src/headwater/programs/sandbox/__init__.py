"""A process that can neither write nor reach anything outside, and leaves no process behind.

The modules run in a bare Python, before anything of the user's: they import the standard library alone.
"""
