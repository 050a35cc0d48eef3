"""How other frameworks write down how parameters lie, each format a file: read as a plan, and written from one."""
