"""Messages between processes: sockets, the wire, what is checked on the way in."""
