"""The `sdy` dialect of OpenXLA's Shardy: its attributes, its newer forms, its rules for modules."""

from shardwright.notation.sdy.sharding import (
    parse_axes,
    parse_axis,
    parse_axis_lists,
    parse_dimension,
    parse_mesh,
    parse_move,
    parse_moves,
    parse_sharding,
    parse_shardings,
    print_axes,
    print_axis,
    print_axis_lists,
    print_dimension,
    print_mesh,
    print_sharding,
    print_shardings,
)

__all__ = [
    "parse_axes",
    "parse_axis",
    "parse_axis_lists",
    "parse_dimension",
    "parse_mesh",
    "parse_move",
    "parse_moves",
    "parse_sharding",
    "parse_shardings",
    "print_axes",
    "print_axis",
    "print_axis_lists",
    "print_dimension",
    "print_mesh",
    "print_sharding",
    "print_shardings",
]
