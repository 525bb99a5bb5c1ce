"""Static files: one listing for each batch, pinned where files can change while they are read."""
