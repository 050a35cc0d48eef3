"""One program partitioned again and again, with other shardings: what of it was decided before is decided as then."""
