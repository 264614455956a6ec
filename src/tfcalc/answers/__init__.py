"""The answers, one file each: its keys, how each is made, and how people see it."""
