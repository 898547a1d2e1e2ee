"""Delta: staged files lie in a folder that no log knows; one commit of the table's log makes them its own."""
