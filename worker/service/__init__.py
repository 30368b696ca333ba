"""What the processes of a worker service and their supervisor both know. Imports no other room."""
