"""URLs with their passwords and keys masked, fit to be shown. Pure."""

import re

MASK = "********"
# Up to the last @, so that nothing is shown of a password with characters that need escaping.
_USER_AND_PASSWORD = re.compile(r"^(\w[\w+.-]*:(?://)?)?.*@", re.DOTALL)
# A parameter that sounds like a secret, whatever the library calls it: password, sslpassword,
# access_key, X-Amz-Signature, token.
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&;#]*(?:pass|pwd|secret|token|key|sig|credential|auth)[^=&;#]*=)[^&;#]*",
    re.IGNORECASE,
)


def masked_url(url: str) -> str:
    head, mark, query = url.partition("?")
    head = _USER_AND_PASSWORD.sub(rf"\1{MASK}@", head)
    return head + _SECRET_PARAMETER.sub(rf"\1{MASK}", mark + query)
