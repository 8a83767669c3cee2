"""The instance manager: one process, one thread of engine code, one core. It runs the subquery instances assigned to it."""
