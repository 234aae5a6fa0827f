// Verifies a webhook of Leat. Exit code 0: genuine, 1: refused. Go 1.19 or newer, standard library.
//
//	WEBHOOK_SECRET=whsec_…            go run verify.go v1  ID TIMESTAMP SIGNATURE        < body
//	WEBHOOK_KEYS=https://…/keys.json  go run verify.go v1a ID TIMESTAMP SIGNATURE KEY_ID < body
package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Webhook has the headers webhook-id, -timestamp, -signature and -key-id, and the received bytes.
type Webhook struct {
	ID, Timestamp, Signature, KeyID string
	Body                            []byte
}

// VerifyV1 verifies with the signing secret of the stream.
func VerifyV1(secret string, w Webhook) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || !w.isRecent() {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(w.content())
	expected := mac.Sum(nil)
	for _, one := range w.signatures("v1") {
		if hmac.Equal(expected, one) {
			return true
		}
	}
	return false
}

// Key is a key of the key set; see docs/receivers.md for how long to keep them.
type Key struct{ Kid, Crv, X string }

// VerifyV1a verifies with the published key that the request names.
func VerifyV1a(keys []Key, w Webhook) bool {
	for _, key := range keys {
		public, err := base64.RawURLEncoding.DecodeString(key.X)
		if key.Kid != w.KeyID || key.Crv != "Ed25519" || err != nil || len(public) != ed25519.PublicKeySize {
			continue
		}
		for _, one := range w.signatures("v1a") {
			if w.isRecent() && ed25519.Verify(public, w.content(), one) {
				return true
			}
		}
	}
	return false
}

func (w Webhook) content() []byte {
	return append([]byte(w.ID+"."+w.Timestamp+"."), w.Body...)
}

// The header has several signatures during a rotation, and of several schemes.
func (w Webhook) signatures(scheme string) (found [][]byte) {
	for _, value := range strings.Split(w.Signature, " ") {
		name, text, _ := strings.Cut(value, ",")
		if one, err := base64.StdEncoding.DecodeString(text); name == scheme && err == nil {
			found = append(found, one)
		}
	}
	return found
}

func (w Webhook) isRecent() bool {
	seconds, err := strconv.ParseInt(w.Timestamp, 10, 64)
	age := time.Now().Unix() - seconds
	return err == nil && age <= 300 && age >= -300
}

func main() {
	args := append(os.Args[1:], "", "", "", "", "")
	body, err := io.ReadAll(os.Stdin)
	exitOn(err)
	webhook := Webhook{args[1], args[2], args[3], args[4], body}
	genuine := false
	if args[0] == "v1a" {
		genuine = VerifyV1a(fetchKeys(os.Getenv("WEBHOOK_KEYS")), webhook)
	} else {
		genuine = VerifyV1(os.Getenv("WEBHOOK_SECRET"), webhook)
	}
	if !genuine {
		fmt.Println("refused")
		os.Exit(1)
	}
	fmt.Println("genuine")
}

func fetchKeys(url string) []Key {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	exitOn(err)
	defer response.Body.Close()
	var set struct{ Keys []Key }
	exitOn(json.NewDecoder(response.Body).Decode(&set))
	return set.Keys
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
