"""Passwords that are kept apart from the URLs they belong to. Pure."""

import re
from urllib.parse import quote

_URL = re.compile(r"(?P<scheme>[a-z+]+://)(?:(?P<user>[^@/?#]*)@)?(?P<rest>.*)", re.DOTALL)


def with_password(text: str, password: str) -> str:
    """The URL with the password, unless it has one; what is no URL stays as it is."""
    found = _URL.fullmatch(text)
    user = (found["user"] or "") if found else ""
    if found is None or not password or ":" in user:
        return text
    return f"{found['scheme']}{user}:{quote(password, safe='')}@{found['rest']}"
