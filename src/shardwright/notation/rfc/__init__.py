"""The mesh RFC on LLVM's forum: `#mesh.shard<…>` of single tensors, and modules with clusters and annotations."""

from shardwright.notation.rfc.sharding import KEYWORD, PREFIX

__all__ = ["KEYWORD", "PREFIX"]
