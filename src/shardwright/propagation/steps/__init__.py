"""What comes before and after the worklist, each once: passes of the same names take them too."""
