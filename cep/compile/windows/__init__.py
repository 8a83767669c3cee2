"""Windows at work: panes of TIME windows, and programs of the sequential ones."""
