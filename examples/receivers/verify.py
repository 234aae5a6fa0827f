"""Verifies a webhook of Leat. Exit code 0: genuine, 1: refused. Python 3.9 or newer.

    WEBHOOK_SECRET=whsec_…            python3 verify.py v1  ID TIMESTAMP SIGNATURE        < body
    WEBHOOK_KEYS=https://…/keys.json  python3 verify.py v1a ID TIMESTAMP SIGNATURE KEY_ID < body

v1a needs the package cryptography.
"""

import base64, hmac, json, os, re, sys, time, urllib.request


def verify_v1(secret, id, timestamp, signature, body):
    """Takes the headers webhook-id, -timestamp and -signature, and the received bytes."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.digest(key, content(id, timestamp, body), "sha256")
    given = signatures(signature, "v1", bytes_count=32)
    return is_recent(timestamp) and any(hmac.compare_digest(expected, one) for one in given)


def verify_v1a(keys, id, timestamp, signature, key_id, body):
    """`keys` are those of the key set; see docs/receivers.md for how long to keep them."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    jwk = next((one for one in keys if one["kid"] == key_id and one.get("crv") == "Ed25519"), None)
    if jwk is None or not is_recent(timestamp):
        return False
    key = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(jwk["x"] + "="))
    for one in signatures(signature, "v1a", bytes_count=64):
        try:
            key.verify(one, content(id, timestamp, body))
            return True
        except InvalidSignature:
            pass
    return False


def content(id, timestamp, body):
    return f"{id}.{timestamp}.".encode() + body


def signatures(header, scheme, bytes_count):
    """The header has several signatures during a rotation, and of several schemes."""
    found = []
    for value in header.split(" "):
        name, _, text = value.partition(",")
        try:
            one = base64.b64decode(text, validate=True)
        except ValueError:
            continue
        if name == scheme and len(one) == bytes_count:
            found.append(one)
    return found


def is_recent(timestamp):
    known = re.fullmatch(r"[0-9]{1,12}", timestamp)
    return known is not None and abs(time.time() - int(timestamp)) <= 300


if __name__ == "__main__":
    scheme, *headers = sys.argv[1:]
    body = sys.stdin.buffer.read()
    if scheme == "v1a":
        with urllib.request.urlopen(os.environ["WEBHOOK_KEYS"], timeout=10) as response:
            keys = json.load(response)["keys"]
        genuine = verify_v1a(keys, *headers, body)
    else:
        genuine = verify_v1(os.environ["WEBHOOK_SECRET"], *headers, body)
    print("genuine" if genuine else "refused")
    sys.exit(0 if genuine else 1)
