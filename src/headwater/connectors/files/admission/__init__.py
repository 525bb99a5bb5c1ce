"""The admission of new files: each is opened before a batch takes it."""
