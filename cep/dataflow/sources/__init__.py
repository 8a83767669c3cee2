"""Where rows enter: files, publishers, other queries; what is late and what is idle."""
