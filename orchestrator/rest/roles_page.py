"""The table of docs/roles.md: `python -m orchestrator.rest.roles_page` prints it."""

from __future__ import annotations

import sys

from cep.errors import Forbidden
from cep.service.access import Access, Role
from orchestrator.rest.roles import ROUTES, Need

STREAM = "visits"
ROLES = ("admin", "deploy", f"publish:{STREAM}", f"subscribe:{STREAM}", "read")
YES, NO = "✓", ""


def allowed(need: Need, role: str) -> bool:
    """May a token with this role alone ask for what is about the stream `visits`?"""
    access = Access("token", (Role.parse(role),))
    try:
        need.check(access, {"name": STREAM})
        need.check_body(access, [{"stream": STREAM}])
    except Forbidden:
        return False
    return True


def table() -> str:
    """A line for each route."""
    lines = ["| route | needs | " + " | ".join(f"`{role}`" for role in ROLES) + " |", "|---" * (len(ROLES) + 2) + "|"]
    for (method, path), need in ROUTES.items():
        marks = (YES if need.open or allowed(need, role) else NO for role in ROLES)
        lines.append(f"| `{method} {path}` | {need.words} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
