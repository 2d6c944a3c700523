package workflow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// SignatureHeader has the signature of a request that the product sends.
const SignatureHeader = "Lockstep-Signature"

// Sign is the signature of a request: when it was made, and an HMAC-SHA256 over that and the body as
// it is sent. Who checks both refuses what others send, or send again later.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(MAC(secret, []byte(t+"."), body))
}

// MAC is the HMAC-SHA256 over parts, one behind the other.
func MAC(secret []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
