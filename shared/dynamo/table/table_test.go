package table

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestTenantPrefix_IsNeverPrefixOfAnotherTenant(t *testing.T) {
	names := []string{"a", "a#b", "a#", "#a", "a%23b", "a%", "%", "#", "a%25#", ""}
	for _, a := range names {
		if got, rest := SplitTenant(TenantPrefix(a) + "x#y"); got != a || rest != "x#y" {
			t.Errorf("%q was split into %q and %q", a, got, rest)
		}
		for _, b := range names {
			if a != b && strings.HasPrefix(TenantPrefix(b), TenantPrefix(a)) {
				t.Errorf("%q starts with %q", TenantPrefix(b), TenantPrefix(a))
			}
		}
	}
}

func rows(err error, ids ...string) Rows {
	return func(yield func(Item, error) bool) {
		for _, id := range ids {
			if !yield(Item{"id": S(id)}, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func byID(a, b Item) bool { return a.Text("id") < b.Text("id") }

func TestMerge_KeepsOrderAndStopsAtError(t *testing.T) {
	failure := errors.New("failed")
	for name, c := range map[string]struct {
		parts []Rows
		want  string
		err   error
	}{
		"no parts":     {nil, "", nil},
		"empty parts":  {[]Rows{rows(nil), rows(nil)}, "", nil},
		"interleaved":  {[]Rows{rows(nil, "a", "d", "e"), rows(nil), rows(nil, "b", "c", "f")}, "abcdef", nil},
		"equal":        {[]Rows{rows(nil, "a", "b"), rows(nil, "a", "b")}, "aabb", nil},
		"error at end": {[]Rows{rows(failure, "a"), rows(nil, "b", "c")}, "a", failure},
		"error first":  {[]Rows{rows(failure), rows(nil, "b", "c")}, "", failure},
	} {
		got, last := "", error(nil)
		for it, err := range Merge(context.Background(), byID, c.parts) {
			if last = err; err == nil {
				got += it.Text("id")
			}
		}
		if got != c.want || !errors.Is(last, c.err) {
			t.Errorf("%s: %s %v, want %s %v", name, got, last, c.want, c.err)
		}
	}
	for range Merge(context.Background(), byID, []Rows{rows(nil, "a", "b"), rows(nil, "c")}) {
		break
	}
}

func TestCompressor_RoundTrips(t *testing.T) {
	dicts := map[byte][]byte{1: []byte("old words"), 2: []byte("new words")}
	older, newer := NewCompressor(1, dicts), NewCompressor(2, dicts)
	for _, text := range []string{"", "x", "old words", "new words", strings.Repeat("again ", 1000), "\x00\x01\x02"} {
		for _, c := range []*Compressor{older, newer, Deflate} {
			packed := c.Compress([]byte(text))
			if len(packed) > len(text)+1 {
				t.Errorf("%q grew to %d bytes", text, len(packed))
			}
			got, err := c.Decompress(packed)
			if err != nil || string(got) != text {
				t.Errorf("%q was decompressed to %q: %v", text, got, err)
			}
		}
		if got, err := newer.Decompress(older.Compress([]byte(text))); err != nil || string(got) != text {
			t.Errorf("text written with the older dictionary was decompressed to %q: %v", got, err)
		}
	}
	if _, err := NewCompressor(1, map[byte][]byte{1: nil}).Decompress(newer.Compress([]byte(strings.Repeat("new words", 9)))); !workflow.Is(err, workflow.CodeUnavailable) {
		t.Errorf("an unknown format: %v", err)
	}
	truncated := Deflate.Compress([]byte(strings.Repeat("cut ", 100)))
	if _, err := Deflate.Decompress(truncated[:len(truncated)-3]); !workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("a truncated document: %v", err)
	}
}

func TestItem_OtherTypesReadAsZero(t *testing.T) {
	it := Item{"s": S("x"), "n": Float(1.5), "ns": NumberSet(3, 1), "ss": StringSet("a"), "yes": True(), "b": B([]byte("q"))}
	if it.Text("n") != "" || it.Int("s") != 0 || it.Float("s") != 0 || it.Bytes("s") != nil || it.StringSet("ns") != nil || it.NumberSet("ss") != nil {
		t.Error("a value of one type was read as another")
	}
	if it.Float("n") != 1.5 || !slices.Equal(it.NumberSet("ns"), []int{3, 1}) || !it.Has("yes") || it.Has("no") {
		t.Errorf("read %v", it)
	}
	if got := (Item{"n": N(math.MinInt64)}).Int("n"); got != math.MinInt64 {
		t.Errorf("read %d", got)
	}
	if got := (Item{"ab": S("xyz"), "n": N(1234), "y": True()}).Size(); got != 5+4+2 {
		t.Errorf("size %d", got)
	}
}

// Refusals for permissions, keys, credentials or a missing table are not the
// execution's fault and may pass; only a malformed call fails for good.
func TestTable_ClassifiesServiceErrors(t *testing.T) {
	one := &Table{role: "engine"}
	for code, want := range map[string]workflow.Code{
		"AccessDeniedException":       workflow.CodeUnavailable,
		"KMSAccessDeniedException":    workflow.CodeUnavailable,
		"ResourceNotFoundException":   workflow.CodeUnavailable,
		"ExpiredTokenException":       workflow.CodeUnavailable,
		"UnrecognizedClientException": workflow.CodeUnavailable,
		"ValidationException":         workflow.CodeInternal,
	} {
		calls := 0
		err := one.retry(t.Context(), func(context.Context) error {
			calls++
			return &smithy.GenericAPIError{Code: code, Message: "no", Fault: smithy.FaultClient}
		})
		if !workflow.Is(err, want) || calls != 1 {
			t.Errorf("%s: %v after %d calls, want %s", code, err, calls, want)
		}
	}
	err := one.retry(t.Context(), func(context.Context) error { return &smithy.SerializationError{Err: errors.New("no")} })
	if !workflow.Is(err, workflow.CodeInternal) {
		t.Errorf("a call that cannot be serialized: %v", err)
	}
}

// A table that does not answer is unavailable long before its caller has no time left, however the
// request ends: by itself, as one that waits for the headers of an answer, or with its context.
func TestTable_EndsCallsWithoutAnswer(t *testing.T) {
	for name, patience := range map[string]time.Duration{"the request ends": 25 * time.Second, "nothing ends it": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const left = 2 * time.Minute
				ctx, cancel := context.WithTimeout(t.Context(), left)
				defer cancel()
				begun := time.Now()
				err := (&Table{role: "jobs"}).retry(ctx, func(ctx context.Context) error {
					select {
					case <-time.After(patience):
						return errors.New("timeout awaiting response headers")
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				if took := time.Since(begun); !workflow.Is(err, workflow.CodeUnavailable) || ctx.Err() != nil || took > left/3 {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}
