"""The control socket of a run: its protocol, server and client, and the runs on this machine."""
