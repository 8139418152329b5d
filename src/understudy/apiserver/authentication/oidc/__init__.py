"""Users of OpenID Connect: JSON Web Tokens of other issuers, by flags or by an AuthenticationConfiguration.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens
"""
