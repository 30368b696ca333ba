"""The pure parts of the benchmarks, and the client that they push with."""
