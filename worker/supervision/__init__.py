"""The parent of the worker processes: starts them, watches them, replaces them, reports on them."""
