"""Reading files: what streams, batches and static sources share."""
