"""From a domain that is due to a page, its verdict, and its way to the parse stage."""
