"""Dialects that jaxlib lacks, by tables of op forms: their custom syntax to MLIR's generic form and back."""
