"""What goes wrong outside."""

from __future__ import annotations


class ConnectorError(Exception):
    """The surroundings', or a setting's: the other side is away, or refuses. The connector is closed, and opened again after a pause, from
    where it was; so raise it freely."""
