"""IR printed in public texts: as it stands there, with what mends it."""

from __future__ import annotations

from dataclasses import dataclass

Mend = tuple[str, str, str]

ARROW: Mend = (" > ", " -> ", "the arrow lost its dash")
DOT = "dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>"
BRACKETS: Mend = ("[[[], ", "[[], ", "one bracket too many: lists of numbers are not nested deeper")
NESTED: Mend = ("[[[]], ", "[[], ", "brackets around an empty list")
ALL_DOT: Mend = ("{...}", f"{{{DOT}}}", "elided attributes")
SOME_DOT: Mend = ("{..., ", f"{{{DOT}, ", "elided attributes")


@dataclass(frozen=True)
class Snippet:
    """IR as printed, its mends, the module it is put into (`{}`), what its import says, or what refuses it."""

    origin: str
    text: str
    mends: tuple[Mend, ...] = ()
    frame: str = "{}"
    says: tuple[str, ...] = ()
    refused: str = ""

    @property
    def module(self) -> str:
        text = self.text
        for wrong, right, reason in self.mends:
            assert wrong in text, (wrong, reason)
            text = text.replace(wrong, right)
        return self.frame.replace("{}", text, 1)


def body(cluster: str, arguments: str = "", attributes: str = "mesh_cluster = @mesh0") -> str:
    """A function around ops on a cluster."""
    return f"{cluster}\nfunc.func @f({arguments}) attributes {{{attributes}}} {{\n{{}}\nreturn\n}}"


ONE = "mesh.cluster @mesh0(rank = 1, dim_sizes = [2])"
TWO = "mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])"
THREE = "mesh.cluster @mesh0(rank = 3, dim_sizes = [2, 2, 2])"
