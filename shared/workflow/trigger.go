package workflow

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// VerifyScheme is how calls of a trigger prove who makes them.
type VerifyScheme string

// The schemes.
const (
	VerifyHMAC   VerifyScheme = "hmac"   // t=<unix time>,v1=<hex of HMAC-SHA256(time.body)>, as this product signs its own requests
	VerifyStripe VerifyScheme = "stripe" // the same, in the header of Stripe
	VerifyGitHub VerifyScheme = "github" // sha256=<hex of HMAC-SHA256(body)>, without a time
	VerifyToken  VerifyScheme = "token"  // the secret itself
)

// Verification says how calls of a trigger prove who makes them: with the secret, in the header.
type Verification struct {
	Scheme    VerifyScheme `json:"scheme"`
	Secret    string       `json:"secret"`              // name, which begins with [TriggerSecretPrefix]
	Header    string       `json:"header,omitempty"`    // "" for the default of the scheme
	Tolerance Duration     `json:"tolerance,omitempty"` // how far the time of a call may differ; 0 is [DefaultTolerance]
}

// TriggerSecretPrefix is the prefix of the names of trigger secrets. The function that serves
// triggers, for unknown callers, may read no other secrets.
const TriggerSecretPrefix = "hooks/"

// The tolerances of calls.
const (
	DefaultTolerance = 5 * time.Minute
	MaxTolerance     = time.Hour
)

// HeaderName returns the name of the header with the proof, in lower case.
func (v *Verification) HeaderName() string {
	if v.Header != "" {
		return strings.ToLower(v.Header)
	}
	switch v.Scheme {
	case VerifyStripe:
		return "stripe-signature"
	case VerifyGitHub:
		return "x-hub-signature-256"
	case VerifyToken:
		return "authorization"
	}
	return strings.ToLower(SignatureHeader)
}

// Timed reports whether the proof contains a time, so that an old one is refused.
func (v *Verification) Timed() bool { return v.Scheme == VerifyHMAC || v.Scheme == VerifyStripe }

// Window returns how far the time of a call may differ.
func (v *Verification) Window() time.Duration {
	if v.Tolerance > 0 {
		return v.Tolerance.Std()
	}
	return DefaultTolerance
}

// maxSignatures bounds the signatures of one call: senders that are changing their secret send two.
const maxSignatures = 8

// Check reports whether the value of the header proves that a call with this body comes from
// somebody who has the secret. signed identifies what is proved: it is the same for the same call,
// whatever the unsigned parts say, and is empty if only the secret is proved. All comparisons take
// constant time.
func (v *Verification) Check(secret []byte, header string, body []byte, now time.Time) (signed string, ok bool) {
	if len(secret) < MinSecretBytes {
		return "", false
	}
	switch v.Scheme {
	case VerifyToken:
		given := header
		if scheme, rest, found := strings.Cut(header, " "); found && strings.EqualFold(scheme, "Bearer") {
			given = rest
		}
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256(secret)
		return "", subtle.ConstantTimeCompare(a[:], b[:]) == 1
	case VerifyGitHub:
		given, found := strings.CutPrefix(header, "sha256=")
		mac := MAC(secret, body)
		return hex.EncodeToString(mac), found && equalHex(given, mac)
	case VerifyHMAC, VerifyStripe:
		at, signatures := splitSignature(header)
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil || len(signatures) > maxSignatures {
			return "", false
		}
		mac := MAC(secret, []byte(at+"."), body)
		for _, s := range signatures {
			ok = equalHex(s, mac) || ok
		}
		away := now.Sub(time.Unix(seconds, 0)).Abs()
		return hex.EncodeToString(mac), ok && away <= v.Window()
	}
	return "", false
}

// splitSignature splits t=<time>,v1=<signature>[,v1=<signature>].
func splitSignature(header string) (at string, signatures []string) {
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); {
		case name == "t" && at == "":
			at = value
		case name == "v1":
			signatures = append(signatures, value)
		}
	}
	return at, signatures
}

func equalHex(text string, mac []byte) bool {
	given, err := hex.DecodeString(text)
	return err == nil && subtle.ConstantTimeCompare(given, mac) == 1
}

// Rate limits how often something may happen: Count times at once, and then again each time
// Per/Count has passed.
type Rate struct {
	Count int
	Per   time.Duration
}

var rateRE = regexp.MustCompile(`^([1-9][0-9]{0,5})/([0-9]+(?:ms|s|m|h))$`)

// RatePattern is the format of a rate, such as 60/1m.
var RatePattern = rateRE.String()

// Bounds of rates.
const (
	MinRatePer = time.Second
	MaxRatePer = 24 * time.Hour
)

// ParseRate reads a rate such as 60/1m.
func ParseRate(text string) (Rate, error) {
	m := rateRE.FindStringSubmatch(text)
	if m == nil {
		return Rate{}, fmt.Errorf("want a rate such as 60/1m, not %q", text)
	}
	n, _ := strconv.Atoi(m[1]) // it is up to six digits
	per, err := time.ParseDuration(m[2])
	if err != nil || per < MinRatePer || per > MaxRatePer {
		return Rate{}, fmt.Errorf("want a time from %s to %s, not %q", MinRatePer, MaxRatePer, m[2])
	}
	return Rate{n, per}, nil
}

// String formats the rate so that ParseRate can read it.
func (r Rate) String() string {
	n, unit := r.Per.Milliseconds(), "ms"
	for _, larger := range []struct {
		unit string
		ms   int64
	}{{"s", 1000}, {"m", 60_000}, {"h", 3_600_000}} {
		if r.Per.Milliseconds()%larger.ms == 0 {
			n, unit = r.Per.Milliseconds()/larger.ms, larger.unit
		}
	}
	return strconv.Itoa(r.Count) + "/" + strconv.FormatInt(n, 10) + unit
}

// Each returns the time after which one more may happen.
func (r Rate) Each() time.Duration { return r.Per / time.Duration(r.Count) }

// At returns when number n, from 0, may start in a series that starts evenly from the given time;
// zero if there is no rate.
func (r Rate) At(from time.Time, n int) time.Time {
	if r.IsZero() {
		return time.Time{}
	}
	return from.Add(time.Duration(n) * r.Each())
}

// IsZero reports whether there is no rate.
func (r Rate) IsZero() bool { return r.Count == 0 }

// MarshalJSON encodes the rate as text.
func (r Rate) MarshalJSON() ([]byte, error) { return EncodeJSON(r.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *Rate) UnmarshalJSON(raw []byte) error {
	text, err := strconv.Unquote(string(bytes.TrimSpace(raw)))
	if err != nil {
		return err
	}
	*r, err = ParseRate(text)
	return err
}

// TriggerCall is the result of a call of a trigger. It contains nothing of what was sent.
type TriggerCall struct {
	At        time.Time     `json:"at"`
	Status    int           `json:"status"`              // status of the response
	Code      Code          `json:"code,omitempty"`      // why it was refused
	Execution string        `json:"execution,omitempty"` // execution that was started, or has the signal
	Duplicate bool          `json:"duplicate,omitempty"` // it was accepted before
	By        string        `json:"by,omitempty"`        // who fired it by hand
	Issues    []RefusedPart `json:"issues,omitempty"`
}

// BusEvent is an EventBridge event for the triggers of a tenant.
type BusEvent struct {
	Tenant string          `json:"tenant"`
	Event  json.RawMessage `json:"event"`
}

// RefusedPart is a part of a call that is invalid.
type RefusedPart struct {
	Path string `json:"path"`
	Code string `json:"code"`
}

// Bounds of the calls that are recorded for a trigger. There are only so many keys, so that the
// newest call replaces the oldest.
const (
	MaxTriggerCalls   = 100
	MaxRefusedMinutes = 20 // in each of them one call of a kind is recorded that proves nothing, exceeds the rate, or is a duplicate
)
