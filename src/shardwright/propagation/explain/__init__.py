"""Why a value is sharded as it is: a record of what was done, followed back."""
