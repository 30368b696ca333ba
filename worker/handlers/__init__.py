"""The job types that come with the worker."""
