<?php

// Verifies a webhook of Leat. Exit code 0: genuine, 1: refused. PHP 8.0 or newer; v1a needs sodium.
//
//   WEBHOOK_SECRET=whsec_…            php verify.php v1  ID TIMESTAMP SIGNATURE        < body
//   WEBHOOK_KEYS=https://…/keys.json  php verify.php v1a ID TIMESTAMP SIGNATURE KEY_ID < body

declare(strict_types=1);

/** Takes the headers webhook-id, -timestamp and -signature, and the received bytes. */
function verify_v1(string $secret, string $id, string $timestamp, string $signature, string $body): bool
{
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret), true);
    $expected = hash_hmac('sha256', "$id.$timestamp.$body", $key, true);
    foreach (signatures($signature, 'v1') as $one) {
        if (is_recent($timestamp) && hash_equals($expected, $one)) {
            return true;
        }
    }
    return false;
}

/** `$keys` are those of the key set; see docs/receivers.md for how long to keep them. */
function verify_v1a(array $keys, string $id, string $timestamp, string $signature, string $keyId, string $body): bool
{
    foreach ($keys as $key) {
        if ($key['kid'] !== $keyId || ($key['crv'] ?? '') !== 'Ed25519' || !is_recent($timestamp)) {
            continue;
        }
        $public = sodium_base642bin($key['x'], SODIUM_BASE64_VARIANT_URLSAFE_NO_PADDING);
        foreach (signatures($signature, 'v1a') as $one) {
            $fits = strlen($one) === SODIUM_CRYPTO_SIGN_BYTES;
            if ($fits && sodium_crypto_sign_verify_detached($one, "$id.$timestamp.$body", $public)) {
                return true;
            }
        }
    }
    return false;
}

/** The header has several signatures during a rotation, and of several schemes. */
function signatures(string $header, string $scheme): array
{
    $found = [];
    foreach (explode(' ', $header) as $value) {
        [$name, $text] = explode(',', $value, 2) + ['', ''];
        $one = base64_decode($text, true);
        if ($name === $scheme && $one !== false) {
            $found[] = $one;
        }
    }
    return $found;
}

function is_recent(string $timestamp): bool
{
    return preg_match('/^[0-9]{1,12}$/D', $timestamp) === 1 && abs(time() - (int) $timestamp) <= 300;
}

[, $scheme, $id, $timestamp, $signature, $keyId] = $argv + array_fill(0, 6, '');
$body = file_get_contents('php://stdin');
if ($scheme === 'v1a') {
    $set = json_decode(file_get_contents(getenv('WEBHOOK_KEYS')), true, 8, JSON_THROW_ON_ERROR);
    $genuine = verify_v1a($set['keys'], $id, $timestamp, $signature, $keyId, $body);
} else {
    $genuine = verify_v1(getenv('WEBHOOK_SECRET'), $id, $timestamp, $signature, $body);
}
echo $genuine ? 'genuine' : 'refused', "\n";
exit($genuine ? 0 : 1);
