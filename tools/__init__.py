"""What developers run: the documents are written and checked here. None of it is in the wheel."""
