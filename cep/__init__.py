"""The engine: values in, values out. Nothing here opens a socket, starts a process or reads a clock of its own."""
