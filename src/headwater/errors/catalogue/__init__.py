"""Every entry, one module per area."""
