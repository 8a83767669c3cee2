"""The console as an application: its pages behind its guard."""

from __future__ import annotations

from fastapi import FastAPI, Request
from nicegui import ui
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp

from console.guard import ConsoleGuard
from console.pages import connectors, editor, history, now, queries, query, streams
from console.settings import ConsoleConfig
from console.shell import STYLE, THEMES, Shell
from console.watch import ClusterWatch
from driver.rest import Rest

PAGES = (now, queries, query, editor, streams, connectors, history)


def make_console(config: ConsoleConfig, token: str | None, secret: str | None, patience_s: float = 3.0) -> ASGIApp:
    """The application. `secret`: what browsers have to show; None: nothing."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    shell = Shell(ClusterWatch(Rest(config.url, token, patience_s, config.ca)), Rest(config.url, token, patience_s, config.ca))
    ui.add_css(STYLE, shared=True)
    for page in PAGES:
        page.register(shell)

    @app.get("/theme/{name}")
    def theme(name: str, request: Request) -> Response:
        """Notes which the browser wants, and goes back to where it was."""
        answer = RedirectResponse(_page_of(request.headers.get("referer", "/")), 303)
        answer.set_cookie("theme", name if name in THEMES else "auto", max_age=31_536_000, samesite="strict")
        return answer

    ui.run_with(
        app,
        title="cep",
        favicon="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E",
        tailwind=True,
        show_welcome_message=False,
    )
    return ConsoleGuard(app, config, secret)


def _page_of(referer: str) -> str:
    """The path of a page of ours."""
    path = "/" + referer.partition("://")[2].partition("/")[2]
    return path if not path.startswith("//") else "/"
