"""Large modules read and printed sooner: each form of op once. See README.md beside this file."""
