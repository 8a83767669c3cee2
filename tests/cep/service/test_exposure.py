"""Beyond loopback REST needs tokens, and TLS."""

from __future__ import annotations

from typing import Any

import pytest

from cep.config import ClusterConfig
from cep.errors import ClusterError
from cep.service.exposure import check_exposure


def config(host: str, **given: Any) -> ClusterConfig:
    return ClusterConfig.from_json(ClusterConfig("", "", host, 0, "", "").to_json() | given)


@pytest.mark.parametrize(("host", "open_to_others"), [("127.0.0.1", False), ("localhost", False), ("::1", False), ("0.0.0.0", True)])
def test_beyond_loopback_it_needs_a_token_and_tls(host: str, open_to_others: bool) -> None:
    for given in ({"token": "secret"}, {"tokens": "/tokens"}):
        check_exposure(config(host, **given, tls_cert="/c", tls_key="/k"))
        check_exposure(config(host, **given, insecure_http=True))
    if open_to_others:
        with pytest.raises(ClusterError, match="give the cluster a token"):
            check_exposure(config(host, tls_cert="/c", tls_key="/k"))
        with pytest.raises(ClusterError, match=r"would travel in the clear.*cep keys.*--insecure-http"):
            check_exposure(config(host, token="secret"))
    else:
        check_exposure(config(host))
