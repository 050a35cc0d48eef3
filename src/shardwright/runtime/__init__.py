"""Running programs: XLA devices in a subprocess or in this process, inputs, and comparison with one device."""

from shardwright.runtime.compare import OutputDifference, Tolerance, compare
from shardwright.runtime.execute import Execution, Job, execute_local, execute_unsharded, run_jobs
from shardwright.runtime.inputs import load_inputs, make_inputs
from shardwright.runtime.shards import ReplicaDifference
from shardwright.runtime.unsharded import unsharded
from shardwright.runtime.verify import Verification, verify

__all__ = [
    "Execution",
    "Job",
    "OutputDifference",
    "ReplicaDifference",
    "Tolerance",
    "Verification",
    "compare",
    "execute_local",
    "execute_unsharded",
    "load_inputs",
    "make_inputs",
    "run_jobs",
    "unsharded",
    "verify",
]
