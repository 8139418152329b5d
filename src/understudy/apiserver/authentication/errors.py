"""Why credentials are not good. Requests with them are answered 401, and told no more."""


class TokenError(Exception):
    """A token that is not valid. str(error) says why; "" for one that no authenticator of this server knows."""


class CertificateError(Exception):
    """A client certificate that is not good. str(error) says why."""
