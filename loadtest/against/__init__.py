"""`--against REVISION`: this checkout and another one, in turns."""
