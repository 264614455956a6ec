"""Named models, one data file each: the fields of its family, and where they were published."""
