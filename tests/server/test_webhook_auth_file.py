"""The operator's file for authentication to webhooks: what it says, and precise errors for what it says wrongly."""

from pathlib import Path

import pytest
import trustme

from parley.network.urls import parse_url
from parley.server.security.auth_file import AuthFileError
from parley.server.webhooks.auth_file import load_webhook_auth, parse_webhook_auth
from parley.server.webhooks.auth_settings import HostPattern, WebhookAuthSettings, WebhookOAuthClient

OAUTH2 = """
[[oauth2]]
hosts = ["hooks.example.com", ".corp.example:8443", "[2606:4700::1]"]
token_url = "https://login.example.com/token"
client_id = "parley"
client_secret = "env:HOOK_SECRET"
scopes = ["notify", "x"]
audience = "https://hooks.example.com"
resource = "https://hooks.example.com/r"
"""


def test_everything_that_the_file_can_say() -> None:
    settings = parse_webhook_auth(f'sign = "always"\n{OAUTH2}', environ={"HOOK_SECRET": "s3cret"})
    hosts = (HostPattern("hooks.example.com"), HostPattern(".corp.example", 8443), HostPattern("2606:4700::1"))
    client = WebhookOAuthClient(
        hosts=hosts,
        token_url="https://login.example.com/token",
        client_id="parley",
        client_secret="s3cret",
        scopes=("notify", "x"),
        audience="https://hooks.example.com",
        resource="https://hooks.example.com/r",
    )
    assert settings == WebhookAuthSettings(sign="always", oauth2=(client,))
    assert parse_webhook_auth("") == WebhookAuthSettings()


@pytest.mark.parametrize(
    ("url", "is_listed"),
    [
        ("https://hooks.example.com/x", True),
        ("https://HOOKS.example.com:443/x", True),
        ("http://hooks.example.com/x", True),
        ("https://hooks.example.com:8443/x", False),
        ("https://a.hooks.example.com/x", False),
        ("https://a.corp.example:8443/x", True),
        ("https://a.corp.example/x", False),
        ("https://corp.example:8443/x", False),
        ("https://[2606:4700::1]/x", True),
        ("https://evilhooks.example.com/x", False),
    ],
)
def test_a_host_is_listed_with_its_port(url: str, is_listed: bool) -> None:
    settings = parse_webhook_auth(OAUTH2, environ={"HOOK_SECRET": "s3cret"})
    assert (settings.oauth_client(parse_url(url)) is not None) is is_listed


def test_certificates_are_beside_the_file(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("parley@example.com")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    file = tmp_path / "hooks.toml"
    file.write_text('[[mtls]]\nhosts = ["bank.example"]\ncertificate = "client.pem"')
    certificate = load_webhook_auth(file).client_certificate(parse_url("https://bank.example/x"))
    assert certificate is not None
    assert certificate.files.certificate == tmp_path / "client.pem"


INVALID = {
    "sign = 1": "sign: Expected `str`, got `int`",
    'sign = "sometimes"': "sign: Invalid enum value 'sometimes'",
    "[oauth2]": "oauth2: Expected `array`, got `object`",
    'other = "x"': "other: unknown key",
    "[[oauth2]]": "oauth2[0].hosts: it is missing",
    OAUTH2.replace("client_id", "client"): "oauth2[0].client: unknown key",
    OAUTH2.replace('client_id = "parley"', ""): "oauth2[0].client_id: it is missing",
    OAUTH2.replace("https://login", "http://login"): (
        "oauth2[0].token_url: the URL must be https; http is allowed on loopback only"
    ),
    OAUTH2.replace("env:HOOK_SECRET", "env:NONE"): (
        "oauth2[0].client_secret: the environment variable NONE is not set"
    ),
    OAUTH2.replace('["hooks.example.com"', '["https://hooks.example.com"'): (
        "oauth2[0].hosts[0]: invalid host 'https://hooks.example.com'; write it as hooks.example.com"
    ),
    OAUTH2.replace(":8443", ":99999"): "oauth2[0].hosts[1]: invalid host '.corp.example:99999'",
    '[[mtls]]\nhosts = []\ncertificate = "x"': "mtls[0].hosts: it must name a host",
    '[[mtls]]\nhosts = ["a.example"]\ncertificate = "absent.pem"': "mtls[0].certificate: absent.pem cannot be read",
    '[[mtls]]\nhosts = ["a.example"]\ncertificate = "README.md"': (
        "mtls[0].certificate: it is not a certificate in PEM with its key"
    ),
    "sign =": "not TOML: ",
}


@pytest.mark.parametrize(("text", "problem"), INVALID.items())
def test_an_invalid_file_is_refused_with_its_key(text: str, problem: str) -> None:
    with pytest.raises(AuthFileError) as error:
        parse_webhook_auth(text, environ={"HOOK_SECRET": "s3cret"})
    assert str(error.value).startswith(problem)
    assert "s3cret" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuthFileError, match=r"absent\.toml cannot be read: No such file"):
        load_webhook_auth(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b'sign = "\xe4"')
    with pytest.raises(AuthFileError, match="it is not UTF-8"):
        load_webhook_auth(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("sign = 1")
    with pytest.raises(AuthFileError, match=r"bad\.toml: sign: Expected"):
        load_webhook_auth(tmp_path / "bad.toml")
