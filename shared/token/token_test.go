package token_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func key(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

func parse(t testing.TB, doc string) token.Keys {
	t.Helper()
	k, err := token.ParseKeys([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The sets of keys before, during and after a change of the key.
func keySets(t testing.TB) (before, during, after token.Keys) {
	return parse(t, fmt.Sprintf(`{"current": "k1", "keys": {"k1": %q}}`, key(1))),
		parse(t, fmt.Sprintf(`{"current": "k2", "keys": {"k1": %q, "k2": %q}}`, key(1), key(2))),
		parse(t, fmt.Sprintf(`{"current": "k2", "keys": {"k2": %q}}`, key(2)))
}

var claims = token.Claims{
	Tenant: "acme", Execution: "019aa4b2-6c1f-7d3e-9a41-5be0c6f1d2a7", StepRunSeq: 7, Generation: 2, Subject: "ann@example.org", Maker: "bob",
	ExpiresAt: time.Date(2026, 11, 22, 10, 0, 0, 123_000_000, time.UTC),
}

func mustMake(t testing.TB, k token.Keys, c token.Claims) string {
	t.Helper()
	made, err := k.Make(c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func wantRefused(t *testing.T, k token.Keys, text string, why error) {
	t.Helper()
	c, err := k.Verify(text)
	if !workflow.Is(err, workflow.CodeUnauthorized) || !errors.Is(err, why) || c != (token.Claims{}) {
		t.Errorf("%.60q: %+v, %v, want %v", text, c, err, why)
	}
	var e *workflow.Error
	if errors.As(err, &e) && e.Message != "the token is not valid" {
		t.Errorf("the message says more: %q", e.Message)
	}
}

// A token is as it was in every release: those that were sent stay valid.
func TestKeys_MakeIsDeterministic(t *testing.T) {
	k, _, _ := keySets(t)
	const want = "lst1.AmsxBGFjbWUkMDE5YWE0YjItNmMxZi03ZDNlLTlhNDEtNWJlMGM2ZjFkMmE3BwIPYW5uQGV4YW1wbGUub3JnA2JvYvuKy5WgNA._YmJHLz8kAbX3yC5wHldfrmaq77gXFN8Z9MOFxNwSBY"
	for range 2 {
		if got := mustMake(t, k, claims); got != want {
			t.Errorf("made %s", got)
		}
	}
}

func TestKeys_VerifyReturnsWhatWasSaid(t *testing.T) {
	before, during, after := keySets(t)
	for _, c := range []token.Claims{
		claims, {}, {Tenant: "a|b", Subject: "c"}, {Tenant: "a", Subject: "b|c"}, {Tenant: strings.Repeat("ü", 300), Subject: "\x00\n."},
		{StepRunSeq: workflow.MaxStepRunSeq, Generation: 1 << 60},
	} {
		for made, verifiers := range map[string][]token.Keys{mustMake(t, before, c): {before, during}, mustMake(t, during, c): {during, after}} {
			for _, k := range verifiers {
				if got, err := k.Verify(made); err != nil || got != c {
					t.Errorf("%+v: %+v, %v", c, got, err)
				}
			}
		}
	}
}

func TestKeys_RefuseOthers(t *testing.T) {
	before, during, after := keySets(t)
	made := mustMake(t, before, claims)
	wantRefused(t, after, made, token.ErrForged) // its key was removed
	wantRefused(t, token.Keys{}, made, token.ErrForged)
	swapped := parse(t, fmt.Sprintf(`{"current": "k1", "keys": {"k1": %q, "k2": %q}}`, key(2), key(1)))
	wantRefused(t, swapped, made, token.ErrWrongKeyID)

	// The payload of one with the MAC of another.
	parts := strings.Split(made, ".")
	for _, change := range []func(*token.Claims){
		func(c *token.Claims) { c.Tenant = "acma" }, func(c *token.Claims) { c.Execution = "019aa4b2-6c1f-7d3e-9a41-5be0c6f1d2a8" },
		func(c *token.Claims) { c.StepRunSeq++ }, func(c *token.Claims) { c.Generation++ }, func(c *token.Claims) { c.Subject = "bob" }, func(c *token.Claims) { c.Maker = "eve" },
		func(c *token.Claims) { c.ExpiresAt = time.Time{} },
	} {
		c := claims
		change(&c)
		other := mustMake(t, before, c)
		if other == made {
			t.Errorf("%+v has the same token", c)
		}
		wantRefused(t, during, strings.Join([]string{parts[0], strings.Split(other, ".")[1], parts[2]}, "."), token.ErrForged)
	}
	for i := range made { // truncated, and with one other character
		if _, err := during.Verify(made[:i]); !workflow.Is(err, workflow.CodeUnauthorized) {
			t.Errorf("cut to %d: %v", i, err)
		}
		for _, r := range "A.-_=\n" {
			if text := made[:i] + string(r) + made[i+1:]; text != made {
				if _, err := during.Verify(text); !workflow.Is(err, workflow.CodeUnauthorized) {
					t.Errorf("%q at %d: %v", r, i, err)
				}
			}
			if _, err := during.Verify(made[:i] + string(r) + made[i:]); !workflow.Is(err, workflow.CodeUnauthorized) {
				t.Errorf("%q put in at %d: %v", r, i, err)
			}
		}
	}
	for _, text := range []string{
		"", ".", "..", "lst1", "lst1.", "lst1..", made + ".", made + "\n", made + "=", " " + made, "lst2" + made[4:], "LST1" + made[4:],
		made + "." + parts[2], "lst1." + made, strings.Repeat("a", token.MaxBytes), strings.Replace(made, "-", "+", 1) + "+",
		"lst1." + parts[1] + "=." + parts[2],
	} {
		if _, err := during.Verify(text); !workflow.Is(err, workflow.CodeUnauthorized) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	wantRefused(t, during, strings.Repeat("a", token.MaxBytes+1), token.ErrMalformed)
	wantRefused(t, during, "lst1."+strings.Repeat("A", 3000)+"."+parts[2], token.ErrMalformed)

	// The last character of the MAC has bits that do not count: no other one is the same token.
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if text := made[:len(made)-1] + string(last); text != made {
			if _, err := during.Verify(text); err == nil {
				t.Errorf("%q is accepted too", last)
			}
		}
	}
}

func TestKeys_MakeRefusesWhatIsTooLarge(t *testing.T) {
	_, during, _ := keySets(t)
	c := claims
	c.Subject = strings.Repeat("s", 3000)
	if _, err := during.Make(c); !workflow.Is(err, workflow.CodeLimit) {
		t.Error(err)
	}
	if _, err := (token.Keys{}).Make(claims); err == nil {
		t.Error("made without a key")
	}
	for _, c := range []token.Claims{{StepRunSeq: -1}, {Generation: -1}, {ExpiresAt: time.Unix(-5, 0)}} {
		if _, err := during.Make(c); err == nil {
			t.Errorf("made of %+v", c)
		}
	}
}

func TestParseKeys_Refusals(t *testing.T) {
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	many := `"a": "` + key(1) + `"`
	for i := range token.MaxKeys {
		many += fmt.Sprintf(`, "k%d": %q`, i, key(byte(i+2)))
	}
	for _, c := range []struct{ path, doc string }{
		{"", ``}, {"", `[]`}, {"", `{"current": "a", "keys": {"a": "` + key(1) + `"}, "more": 1}`}, {"", `{"current": "a", "keys": {"a": "` + key(1) + `"}} {}`},
		{"keys", `{"current": "a"}`}, {"keys", `{"current": "a", "keys": {` + many + `}}`}, {"keys", `{"current": "", "keys": {"": "` + key(1) + `"}}`},
		{"keys", `{"current": "a b", "keys": {"a b": "` + key(1) + `"}}`},
		{"keys.a", `{"current": "a", "keys": {"a": "` + short + `"}}`}, {"keys.a", `{"current": "a", "keys": {"a": "!` + key(1) + `"}}`},
		{"keys.b", `{"current": "a", "keys": {"a": "` + key(1) + `", "b": "` + key(1) + `"}}`},
		{"current", `{"current": "b", "keys": {"a": "` + key(1) + `"}}`}, {"current", `{"keys": {"a": "` + key(1) + `"}}`},
	} {
		_, err := token.ParseKeys([]byte(c.doc))
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != workflow.CodeInvalid || len(e.Issues) != 1 || e.Issues[0].Path != c.path {
			t.Errorf("%s: %v", c.doc, err)
		}
		if err != nil && strings.Contains(err.Error(), key(1)[:20]) {
			t.Errorf("the error shows a key: %v", err)
		}
	}
}

// Nothing that prints a value prints its keys.
func TestKeys_AreNotPrinted(t *testing.T) {
	k := parse(t, `{"current": "a", "keys": {"a": "`+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("secret!", 5)))+`"}}`)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		for _, v := range []any{k, struct{ keys token.Keys }{k}} {
			if text := fmt.Sprintf(format, v); strings.Contains(text, "secret") || strings.Contains(text, "115 101 99") || strings.Contains(text, "736563") {
				t.Errorf("%s prints %s", format, text)
			}
		}
	}
}

// Whatever the text is: either it is refused, or it is the one token of what it says.
func FuzzKeys_Verify(f *testing.F) {
	before, during, _ := keySets(f)
	made := mustMake(f, before, claims)
	other := claims
	other.Tenant = "other"
	parts, others := strings.Split(made, "."), strings.Split(mustMake(f, during, other), ".")
	for _, text := range []string{
		made, mustMake(f, during, claims), made[:len(made)-1], "lst1." + others[1] + "." + parts[2], "lst1." + parts[1] + "." + others[2],
		parts[0] + "." + parts[1] + "=." + parts[2], made[:20] + "\n" + made[20:], "lst1..", "lst1.AA." + parts[2],
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := during.Verify(text)
		if err != nil {
			if !workflow.Is(err, workflow.CodeUnauthorized) || c != (token.Claims{}) {
				t.Errorf("%q: %+v, %v", text, c, err)
			}
			return
		}
		if text != mustMake(t, before, c) && text != mustMake(t, during, c) {
			t.Errorf("%q is not the token of %+v", text, c)
		}
	})
}

// What is sealed is read with the key only, under which it was, and with nothing changed.
func TestKeys_Seal(t *testing.T) {
	before, during, after := keySets(t)
	data := []byte("the token of " + strings.Repeat("somebody", 100))
	sealed, err := before.Seal(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := before.Seal(data); err != nil || !bytes.Equal(again, sealed) {
		t.Errorf("sealed again: %v", err)
	}
	if !token.Sealed(sealed) || token.Sealed(data) || bytes.Contains(sealed, []byte("somebody")) {
		t.Errorf("%q", sealed)
	}
	for _, k := range []token.Keys{before, during} {
		if got, err := k.Open(sealed); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, k := range []token.Keys{after, {}} {
		if _, err := k.Open(sealed); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("opened with another key: %v", err)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := during.Open(changed); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("changed at %d: %v", i, err)
		}
		if _, err := during.Open(sealed[:i]); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, err := (token.Keys{}).Seal(data); err == nil {
		t.Error("sealed without a key")
	}
}
