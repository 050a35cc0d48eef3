"""From numbers to numbers: the worklist, what one op lets through, and in which order."""
