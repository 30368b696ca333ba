"""Where the records of jobs go."""
