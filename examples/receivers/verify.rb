# Verifies a webhook of Leat. Exit code 0: genuine, 1: refused. Ruby 3.1 or newer, standard library.
#
#   WEBHOOK_SECRET=whsec_…            ruby verify.rb v1  ID TIMESTAMP SIGNATURE        < body
#   WEBHOOK_KEYS=https://…/keys.json  ruby verify.rb v1a ID TIMESTAMP SIGNATURE KEY_ID < body
require "json"
require "net/http"
require "openssl"

# Takes the headers webhook-id, -timestamp and -signature, and the received bytes.
def verify_v1(secret, id, timestamp, signature, body)
  key = secret.delete_prefix("whsec_").unpack1("m0")
  expected = OpenSSL::HMAC.digest("SHA256", key, content(id, timestamp, body))
  recent?(timestamp) &&
    signatures(signature, "v1").any? { |one| OpenSSL.secure_compare(expected, one) }
end

# `keys` are those of the key set; see docs/receivers.md for how long to keep them.
def verify_v1a(keys, id, timestamp, signature, key_id, body)
  jwk = keys.find { |one| one["kid"] == key_id && one["crv"] == "Ed25519" }
  return false if jwk.nil? || !recent?(timestamp)

  # The header of an Ed25519 key in RFC 8410, then the key.
  der = ["302a300506032b6570032100"].pack("H*") + jwk["x"].tr("-_", "+/").unpack1("m")
  key = OpenSSL::PKey.read(der)
  text = content(id, timestamp, body)
  signatures(signature, "v1a").any? { |one| one.bytesize == 64 && key.verify(nil, one, text) }
end

def content(id, timestamp, body)
  "#{id}.#{timestamp}.".b + body.b
end

# The header has several signatures during a rotation, and of several schemes.
def signatures(header, scheme)
  values = header.split(" ").map { |value| value.split(",", 2) }
  values.filter_map { |name, text| text.to_s.unpack1("m") if name == scheme }
end

def recent?(timestamp)
  timestamp.match?(/\A[0-9]{1,12}\z/) && (Time.now.to_i - timestamp.to_i).abs <= 300
end

if __FILE__ == $PROGRAM_NAME
  scheme, *headers = ARGV
  body = $stdin.binmode.read
  genuine =
    if scheme == "v1a"
      keys = JSON.parse(Net::HTTP.get(URI(ENV.fetch("WEBHOOK_KEYS"))))["keys"]
      verify_v1a(keys, *headers, body)
    else
      verify_v1(ENV.fetch("WEBHOOK_SECRET"), *headers, body)
    end
  puts genuine ? "genuine" : "refused"
  exit genuine ? 0 : 1
end
