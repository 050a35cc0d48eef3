"""Notations: text of the field ↔ the sharding model. One file per notation."""
