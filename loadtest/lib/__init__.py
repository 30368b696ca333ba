"""What every benchmark needs, whatever it measures: a record of it, its runs, its report."""
