"""A sharding compiler for tensor programs: propagate, partition, run and verify."""
