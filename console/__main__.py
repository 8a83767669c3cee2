"""The process of a console (`python -m console '<config>'`), which `cep console` becomes and `cep up --console` starts."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import uvicorn

from cep.config import TOKEN_VARIABLE
from cep.errors import CepError, ClusterError
from console.app import make_console
from console.settings import ConsoleConfig, check_open


def secret_of(config: ConsoleConfig, token: str | None) -> tuple[str | None, bool]:
    """What browsers have to show, None: nothing; and whether it was made just now. Raises ClusterError: its file cannot be read."""
    if config.secret_file is None:
        return (secrets.token_urlsafe(24), True) if token or config.is_open else (None, False)
    try:
        found = Path(config.secret_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{config.secret_file}: {error}") from None
    if len(found) < 16:
        raise ClusterError(f"{config.secret_file}: expected a secret of at least 16 characters, got {len(found)}")
    return found, False


def listening(config: ConsoleConfig) -> socket.socket:
    """Raises ClusterError: it cannot be there."""
    if config.fd is not None:
        return socket.socket(fileno=config.fd)
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family)
    except OSError as error:
        raise ClusterError(
            f"the console cannot listen at port {config.port} of {config.host}: {error.strerror}; choose another --port"
        ) from error


def main(arguments: Sequence[str]) -> int:
    config = ConsoleConfig.from_json(json.loads(arguments[0]))
    token = os.environ.get(TOKEN_VARIABLE) or None
    try:
        check_open(config)
        secret, is_new = secret_of(config, token)
        listener = listening(config)
        app = make_console(config, token, secret)
    except CepError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"console at {replace(config, port=listener.getsockname()[1]).address}{f'/?secret={secret}' if is_new else ''}", flush=True)
    cert, key = config.tls_cert, config.tls_key
    settings = uvicorn.Config(app, log_level="warning", server_header=False, ssl_certfile=cert, ssl_keyfile=key)
    uvicorn.Server(settings).run([listener])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
