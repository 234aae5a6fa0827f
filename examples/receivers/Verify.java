// Verifies a webhook of Leat. Exit code 0: genuine, 1: refused. Java 17 or newer, standard library.
//
//   WEBHOOK_SECRET=whsec_…            java Verify.java v1  ID TIMESTAMP SIGNATURE        < body
//   WEBHOOK_KEYS=https://…/keys.json  java Verify.java v1a ID TIMESTAMP SIGNATURE KEY_ID < body

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Verify {
  /** The headers webhook-id, -timestamp, -signature and -key-id, and the received bytes. */
  record Webhook(String id, String timestamp, String signature, String keyId, byte[] body) {
    byte[] content() {
      var content = new ByteArrayOutputStream();
      content.writeBytes((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
      content.writeBytes(body);
      return content.toByteArray();
    }

    /** The header has several signatures during a rotation, and of several schemes. */
    List<byte[]> signatures(String scheme) {
      return Arrays.stream(signature.split(" "))
          .filter(value -> value.matches(scheme + ",(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{86}==)"))
          .map(value -> Base64.getDecoder().decode(value.substring(scheme.length() + 1)))
          .toList();
    }

    boolean isRecent() {
      if (!timestamp.matches("[0-9]{1,12}")) return false;
      return Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(timestamp)) <= 300;
    }
  }

  /** Verifies with the signing secret of the stream. */
  static boolean verifyV1(String secret, Webhook webhook) throws GeneralSecurityException {
    var key = Base64.getDecoder().decode(secret.replaceFirst("^whsec_", ""));
    var mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    var expected = mac.doFinal(webhook.content());
    return webhook.isRecent()
        && webhook.signatures("v1").stream().anyMatch(one -> MessageDigest.isEqual(expected, one));
  }

  /** Verifies with the published key that the request names. */
  static boolean verifyV1a(Map<String, PublicKey> keys, Webhook webhook)
      throws GeneralSecurityException {
    var key = keys.get(webhook.keyId());
    if (key == null || !webhook.isRecent()) return false;
    for (var one : webhook.signatures("v1a")) {
      var verifier = Signature.getInstance("Ed25519");
      verifier.initVerify(key);
      verifier.update(webhook.content());
      if (one.length == 64 && verifier.verify(one)) return true;
    }
    return false;
  }

  /**
   * Returns the keys of a key set; see docs/receivers.md for how long to keep them. Java has no JSON
   * parser: take yours. Here the objects of the set are flat.
   */
  static Map<String, PublicKey> keysOf(String json) throws GeneralSecurityException {
    var keys = new HashMap<String, PublicKey>();
    for (var object = Pattern.compile("\\{[^{}]*\\}").matcher(json); object.find(); ) {
      if (!"Ed25519".equals(field(object.group(), "crv"))) continue;
      var x = Base64.getUrlDecoder().decode(field(object.group(), "x"));
      // The header of an Ed25519 key in RFC 8410, then the key.
      var der = new ByteArrayOutputStream();
      der.writeBytes(HexFormat.of().parseHex("302a300506032b6570032100"));
      der.writeBytes(x);
      var spec = new X509EncodedKeySpec(der.toByteArray());
      keys.put(field(object.group(), "kid"), KeyFactory.getInstance("Ed25519").generatePublic(spec));
    }
    return keys;
  }

  private static String field(String object, String name) {
    var found = Pattern.compile('"' + name + "\"\\s*:\\s*\"([^\"]*)\"").matcher(object);
    return found.find() ? found.group(1) : "";
  }

  public static void main(String[] given) throws Exception {
    var args = Arrays.copyOf(given, 5);
    var webhook = new Webhook(args[1], args[2], args[3], args[4], System.in.readAllBytes());
    boolean genuine;
    if ("v1a".equals(args[0])) {
      var client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();
      var request = HttpRequest.newBuilder(URI.create(System.getenv("WEBHOOK_KEYS")));
      var response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
      genuine = verifyV1a(keysOf(response.body()), webhook);
    } else {
      genuine = verifyV1(System.getenv("WEBHOOK_SECRET"), webhook);
    }
    System.out.println(genuine ? "genuine" : "refused");
    System.exit(genuine ? 0 : 1);
  }
}
