"""All passes of this room, in the order in which they are tried: importing this registers them.

What leaves collectives out comes first, and what brings them out of loops before what moves them within; the last ask
what runs beside what.
"""

# ruff: noqa: F401, I001
from shardwright.optimize import dead
from shardwright.optimize import common
from shardwright.optimize import folding
from shardwright.optimize import hoisting
from shardwright.optimize import reassociation
from shardwright.optimize import earlier
from shardwright.optimize import gathers
from shardwright.optimize import pulling
from shardwright.optimize import scheduling
from shardwright.optimize import collective_matmul
from shardwright.optimize import bucketing
