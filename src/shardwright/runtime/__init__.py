"""Running programs: XLA devices in a subprocess or in this process, inputs, and comparison with one device.

Names are imported from the files that define them: the process that runs a program needs few of these.
"""
