"""Delta: staged files are in a folder that no log refers to; one commit of the table's log adds them to the table."""
