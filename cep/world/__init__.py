"""The world behind protocols: clock, coordination, files; the real ones and their doubles."""
