"""What every service builds on: jobs, errors, settings, the Faktory client. Imports no other."""
