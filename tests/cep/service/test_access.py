"""Roles and tokens as values."""

from __future__ import annotations

import pytest

from cep.errors import ClusterError, Forbidden
from cep.secret import Secret
from cep.service.access import (
    ADMIN,
    DEPLOY,
    EVERYBODY,
    READ,
    ROLES_MAX,
    Access,
    Role,
    Token,
    checked_roles,
    cluster_token,
    found,
    new_token,
)

ALL = ("admin", "deploy", "read", "publish:a", "publish:b", "publish:*", "subscribe:a", "subscribe:*")
#: Role -> all of these that it allows.
ALLOWS = {
    "admin": set(ALL),
    "deploy": {"deploy", "read"},
    "read": {"read"},
    "publish:a": {"publish:a"},
    "publish:b": {"publish:b"},
    "publish:*": {"publish:a", "publish:b", "publish:*"},
    "subscribe:a": {"subscribe:a"},
    "subscribe:*": {"subscribe:a", "subscribe:*"},
}


@pytest.mark.parametrize("role", ALL)
def test_what_implies_what(role: str) -> None:
    assert {wanted for wanted in ALL if Role.parse(role).allows(Role.parse(wanted))} == ALLOWS[role]


@pytest.mark.parametrize("text", ALL)
def test_a_role_as_text_and_back(text: str) -> None:
    assert str(Role.parse(text)) == text


def test_a_stream_may_be_called_anything() -> None:
    assert Role.parse("publish:a:b c").stream == "a:b c"


@pytest.mark.parametrize("text", ["", "Admin", "publish", "publish:", "read:x", "admin:", "deploy:*", "root", ":a", " read"])
def test_what_is_no_role(text: str) -> None:
    with pytest.raises(ClusterError, match="expected a role: admin, deploy, publish:STREAM"):
        Role.parse(text)


def test_one_of_several_roles_is_enough() -> None:
    access = Access("both", (Role("publish", "a"), READ))
    access.check(READ)
    access.check(DEPLOY, Role("publish", "a"))
    with pytest.raises(Forbidden, match="needs the role deploy or publish:b, which token 'both' does not have"):
        access.check(DEPLOY, Role("publish", "b"))
    assert access.has_any("publish") and not access.has_any("subscribe") and EVERYBODY.has_any("subscribe")


def test_a_token_is_found_by_its_hash() -> None:
    made = [new_token(name, [role], "2026-11-24") for name, role in (("a", READ), ("b", DEPLOY), ("c", READ))]
    tokens = [token for _, token in made]
    for secret, token in made:
        access = found(secret.text, tokens)
        assert access == token.access and secret.text not in repr(token) and len(secret.text) >= 43
    for wrong in ("", made[0][1].digest, made[0][0].text[:-1], made[0][0].text + " ", "\xe9\udcff"):
        assert found(wrong, tokens) is None
    assert found("s", [cluster_token(Secret("s"))]) == Access("cluster", (ADMIN,))


def test_a_token_as_json_and_back() -> None:
    _, token = new_token("a@b", [Role("publish", "v"), READ, READ], "2026-11-24")
    assert Token.from_json(token.to_json()) == token and len(token.roles) == 2


@pytest.mark.parametrize(
    "change",
    [{"name": "a b"}, {"name": ""}, {"name": "x" * 65}, {"name": 1}, {"sha256": "0"}, {"sha256": None}, {"roles": []}, {"roles": "read"},
     {"roles": ["root"]}, {"made": 1}, {"more": 1}],
)  # fmt: skip
def test_what_is_no_token(change: dict[str, object]) -> None:
    _, token = new_token("a", [READ], "")
    with pytest.raises(ClusterError):
        Token.from_json(token.to_json() | change)


def test_roles_have_a_bound() -> None:
    checked_roles([f"publish:{i}" for i in range(ROLES_MAX)])
    with pytest.raises(ClusterError, match="1 to 100 roles, got 101"):
        checked_roles([f"publish:{i}" for i in range(ROLES_MAX + 1)])
