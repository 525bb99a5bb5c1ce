"""Other stream processors in benchmarks: PyFlink, Quix Streams and Bytewax, each in an environment of its own."""
