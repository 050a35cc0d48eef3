"""The mesh RFC's own completion, which is not Shardy's."""
