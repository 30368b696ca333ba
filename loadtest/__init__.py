"""The load test and the benchmarks of the repository: `python -m loadtest`."""
