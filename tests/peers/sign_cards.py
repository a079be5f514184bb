"""Signs and verifies agent cards with the signing functions of a2a-sdk 1.3.0.

Reads JSON lines from stdin, `{"id": n, "do": "sign" | "verify", "card": {…}, "key": "<PEM>",
"alg": "ES256", "kid": "k1"}`, and answers each with one JSON line: `{"id": n, "ok": true,
"card": {…}}` (the card, with the new signature after "sign") or
`{"id": n, "ok": false, "error": "…"}`. The key is the private one to sign and the public
one to verify. Optional when signing: "jku" and "typ" for the protected header, "header"
for the unprotected one.
"""

import json
import sys

from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_agent_card_signer, create_signature_verifier
from google.protobuf.json_format import MessageToDict


def sign(line: dict) -> dict:
    protected = {name: line[name] for name in ("kid", "alg", "jku", "typ") if name in line}
    signer = create_agent_card_signer(line["key"], protected, line.get("header"))
    return MessageToDict(signer(parse_agent_card(line["card"])))


def verify(line: dict) -> dict:
    def key_for(kid: str | None, jku: str | None) -> str:
        if "kid" in line and kid != line["kid"]:
            # The SDK's verifier lets this pass through as the reason of the refusal.
            raise LookupError(f"no key {kid!r}")
        return line["key"]

    card = parse_agent_card(line["card"])
    create_signature_verifier(key_for, [line["alg"]])(card)
    return MessageToDict(card)


def answer(line: dict) -> dict:
    work = {"sign": sign, "verify": verify}[line["do"]]
    try:
        return {"id": line["id"], "ok": True, "card": work(line)}
    except Exception as error:  # whatever the SDK raises is its verdict
        return {"id": line["id"], "ok": False, "error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for text in sys.stdin:
        if text.strip():
            print(json.dumps(answer(json.loads(text))), flush=True)
