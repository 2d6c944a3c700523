package workflow_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestPlaces_KeepWhatIsInThem compares sets with maps, and writes and reads them.
func TestPlaces_KeepWhatIsInThem(t *testing.T) {
	draw := func(t *rapid.T, name string) map[int]bool {
		m := map[int]bool{}
		for _, p := range rapid.SliceOfN(rapid.IntRange(1, rapid.SampledFrom([]int{8, 200, 3000}).Draw(t, name+" range")), 0, 120).Draw(t, name) {
			m[p] = true
		}
		return m
	}
	set := func(m map[int]bool) workflow.Places {
		var all []int
		for p := range m {
			all = append(all, p)
		}
		return workflow.NewPlaces(all...)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		raw, err := workflow.EncodeJSON(set(a))
		if err != nil {
			t.Fatal(err)
		}
		var s workflow.Places
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		o := set(b)
		if s.Len() != len(a) || len(slices.Collect(s.All())) != len(a) {
			t.Fatalf("%v has %d of %d", s, s.Len(), len(a))
		}
		before := 0
		for p := range 3002 {
			if n := s.Before(p); n != before {
				t.Fatalf("%d before %d, want %d: %v", n, p, before, s)
			}
			if a[p] {
				before++
			}
			for what, got := range map[string][2]bool{
				"contains": {s.Contains(p), a[p]}, "without": {s.Without(o).Contains(p), a[p] && !b[p]},
				"both": {s.Both(o).Contains(p), a[p] && b[p]}, "with": {s.With(o).Contains(p), a[p] || b[p]},
			} {
				if got[0] != got[1] {
					t.Fatalf("%s %d: %v of %v and %v", what, p, got[0], s, o)
				}
			}
		}
		if len(raw) > 3000/6+16 {
			t.Fatalf("%d bytes", len(raw))
		}
	})
}

// TestParsePlaces_RefusesOtherTexts: a text that no set has written is an error.
func TestParsePlaces_RefusesOtherTexts(t *testing.T) {
	for _, text := range []string{"0", "2-1", "1,1", "5,2", "x", "1-", "*?", "1,,2", "-3", "1000001"} {
		if s, err := workflow.ParsePlaces(text); err == nil {
			t.Errorf("%q was read as %v", text, s)
		}
	}
}

// What is stored with a step run is bounded, and says nothing that is not known.
func TestPartOf_IsBounded(t *testing.T) {
	every := func(n, step int) (places []int) {
		for p := 1; p <= n; p += step {
			places = append(places, p)
		}
		return places
	}
	for name, c := range map[string]struct {
		places []int
		kept   bool
	}{
		"few":             {[]int{3, 1}, true},
		"a long range":    {every(100_000, 1), true},
		"half of 3,000":   {every(3000, 2), true},
		"half of 4,000":   {every(4000, 2), false},
		"none":            {nil, false},
		"without a place": {[]int{0, 1}, false},
	} {
		if got := workflow.PartOf(c.places...); got != nil != c.kept || c.kept && (got.Len() != len(c.places) || len(got.String()) > workflow.MaxPartBytes) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
