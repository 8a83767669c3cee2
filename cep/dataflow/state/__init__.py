"""What operators keep: rows held in order, panes of rows, memory of groups."""
