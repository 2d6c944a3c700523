package workflow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// SignatureHeader is the header with the signature of a request that the product sends.
const SignatureHeader = "Lockstep-Signature"

// Sign returns the signature of a request: the time when it was made, and an HMAC-SHA256 over that
// time and the body as sent. A receiver that checks both refuses forged and replayed requests.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(MAC(secret, []byte(t+"."), body))
}

// MAC returns the HMAC-SHA256 over the concatenated parts.
func MAC(secret []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}
