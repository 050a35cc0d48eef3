"""`mhlo.sharding`, XLA's HloSharding: V1, V2 and named, of single tensors and of modules."""

from shardwright.notation.hlo.sharding import from_hlo, named_hlo, parse_hlo, parse_sharding, print_sharding, to_hlo

__all__ = ["from_hlo", "named_hlo", "parse_hlo", "parse_sharding", "print_sharding", "to_hlo"]
