package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

var callTime = time.Unix(1_800_000_000, 0)

// Only a caller with the secret makes a call that is accepted, and only around the signed time.
func TestVerification_AcceptsOnlyWhatTheSecretHasSigned(t *testing.T) {
	secret, other, body := []byte("correct horse"), []byte("another horse"), []byte(`{"a":1}`)
	timed := workflow.Verification{Scheme: workflow.VerifyHMAC}
	sign := workflow.Sign(secret, callTime, body)
	_, mac, _ := strings.Cut(sign, ",")
	github := workflow.Verification{Scheme: workflow.VerifyGitHub}
	token := workflow.Verification{Scheme: workflow.VerifyToken}
	strict := workflow.Verification{Scheme: workflow.VerifyStripe, Tolerance: workflow.Duration(time.Second)}
	digest := "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	for _, test := range []struct {
		name   string
		v      workflow.Verification
		secret []byte
		header string
		body   string
		after  time.Duration
		ok     bool
	}{
		{"signed", timed, secret, sign, `{"a":1}`, 0, true},
		{"at the end of the tolerance", timed, secret, sign, `{"a":1}`, 5 * time.Minute, true},
		{"too late", timed, secret, sign, `{"a":1}`, 5*time.Minute + time.Second, false},
		{"too early", timed, secret, sign, `{"a":1}`, -5*time.Minute - time.Second, false},
		{"a tolerance of its own", strict, secret, sign, `{"a":1}`, 2 * time.Second, false},
		{"another body", timed, secret, sign, `{"a":2}`, 0, false},
		{"another time", timed, secret, "t=1800000001," + mac, `{"a":1}`, 0, false},
		{"another secret", timed, other, sign, `{"a":1}`, 0, false},
		{"one of two signatures", strict, secret, "t=1800000000,v1=00,v0=ab," + mac, `{"a":1}`, 0, true},
		{"no signature", timed, secret, "t=1800000000", `{"a":1}`, 0, false},
		{"no time", timed, secret, mac, `{"a":1}`, 0, false},
		{"nothing", timed, secret, "", `{"a":1}`, 0, false},
		{"many signatures", timed, secret, "t=1800000000,v1=00,v1=00,v1=00,v1=00,v1=00,v1=00,v1=00,v1=00," + mac, `{"a":1}`, 0, false},
		{"GitHub", github, []byte("It's a Secret to Everybody"), digest, "Hello, World!", 24 * time.Hour, true},
		{"GitHub without its name", github, []byte("It's a Secret to Everybody"), digest[7:], "Hello, World!", 0, false},
		{"GitHub, another body", github, []byte("It's a Secret to Everybody"), digest, "Hello, World?", 0, false},
		{"token", token, secret, "Bearer correct horse", "", 0, true},
		{"token alone, as GitLab sends it", token, secret, "correct horse", "", 0, true},
		{"a part of the token", token, secret, "Bearer correct", "", 0, false},
		{"a short secret", token, []byte("short"), "Bearer short", "", 0, false},
		{"no scheme", workflow.Verification{}, secret, sign, `{"a":1}`, 0, false},
	} {
		if _, ok := test.v.Check(test.secret, test.header, []byte(test.body), callTime.Add(test.after)); ok != test.ok {
			t.Errorf("%s: %v", test.name, ok)
		}
	}
	signed, _ := timed.Check(secret, sign, body, callTime)
	again, _ := timed.Check(secret, "t=1800000000,v1=00,"+mac, body, callTime)
	if signed == "" || signed != again {
		t.Errorf("the same call is %q and %q", signed, again)
	}
}

// A rate lets so many calls pass in a row, then one for each part of its time; and never more than
// that, however they come.
func TestRate_LetsSoManyPass(t *testing.T) {
	r, err := workflow.ParseRate("3/1m")
	if err != nil || r.String() != "3/1m" {
		t.Fatal(r, err)
	}
	var s workflow.RateState
	passed := 0
	for second := range 121 {
		now := callTime.Add(time.Duration(second) * time.Second)
		next, wait := s.Take(r, 0, now)
		if wait == 0 {
			passed++
		} else if _, late := s.Take(r, 0, now.Add(wait)); late > 0 {
			t.Errorf("second %d: after %s it still has to wait", second, wait)
		}
		s = next
	}
	if passed != 9 || s.Sequence != 9 { // three at once, then each 20 s
		t.Errorf("%d of 121 passed, %+v", passed, s)
	}
	for _, text := range []string{"", "0/1m", "3", "3/1", "3/1m/2", "3/25h", "3/10ms", "1000000/1m", "-1/1m"} {
		if _, err := workflow.ParseRate(text); err == nil {
			t.Errorf("%q is a rate", text)
		}
	}
	for _, text := range []string{"1/1500ms", "7/90s", "7/90m", "9/24h"} {
		if r, err := workflow.ParseRate(text); err != nil || r.String() != text {
			t.Errorf("%q is %v, %v", text, r, err)
		}
	}
	raw, err := workflow.EncodeJSON(map[string]workflow.Rate{"rate": r})
	if err != nil || string(raw) != `{"rate":"3/1m"}` {
		t.Errorf("%s, %v", raw, err)
	}
}
