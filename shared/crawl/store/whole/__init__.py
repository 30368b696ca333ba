"""A state as a whole: laid out anew, copied to another place, looked through."""
