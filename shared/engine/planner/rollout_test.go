package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Shares are of the entities of each type, rounded up, and what is left makes one more wave. Who
// has failed before is in none, and nobody is in two.
func TestDivide_ByShare(t *testing.T) {
	for _, test := range []struct {
		shares           []spec.Share
		devices, racks   int
		waves, ofDevices string
	}{
		{[]spec.Share{{Count: 1}, {Percent: 10}, {Percent: 50}}, 20, 0, "[{1 1} {10% 1} {50% 8} {100% 9}]", "1*1 2*1 3*8 4*9 0*1"},
		{[]spec.Share{{Percent: 10}, {Percent: 100}}, 5, 0, "[{10% 1} {100% 3}]", "1*1 2*3 0*1"},
		{[]spec.Share{{Percent: 34}}, 3, 3, "[{34% 3} {100% 2}]", "1*1 2*1 0*1"},
		{[]spec.Share{{Count: 2}, {Count: 4}}, 5, 1, "[{2 3} {4 2}]", "1*2 2*2 0*1"},
		{[]spec.Share{{Count: 50}, {Percent: 50}}, 3, 0, "[{50 2}]", "1*2 0*1"},
		{[]spec.Share{{Count: 1}}, 1, 0, "[]", "0*1"},
	} {
		var entities []workflow.ScopeEntity
		for i := range test.devices {
			entities = append(entities, workflow.ScopeEntity{Key: workflow.EntityKey{Type: "device", ID: fmt.Sprintf("%03d", i)}, Place: i + 1})
		}
		for i := range test.racks {
			entities = append(entities, workflow.ScopeEntity{Key: workflow.EntityKey{Type: "rack", ID: fmt.Sprint(i)}, Place: test.devices + i + 1})
		}
		for i := range 3 { // of a type without steps
			entities = append(entities, workflow.ScopeEntity{Key: workflow.EntityKey{Type: "site", ID: fmt.Sprint(i)}, Place: test.devices + test.racks + i + 1})
		}
		failed := map[workflow.EntityKey]bool{entities[test.devices-1].Key: true}
		waves, numbers, why := divide(&spec.Node{Step: &spec.Step{Rollout: &spec.Rollout{Batches: test.shares}}}, 0, map[string]bool{"device": true, "rack": true}, nil, entities, failed)
		if why != nil {
			t.Fatal(why.Message)
		}
		var of []byte
		for i := range test.devices {
			if i < len(numbers) {
				of = append(of, numbers[i])
			} else {
				of = append(of, 0)
			}
		}
		text := ""
		for len(of) > 0 {
			n := slices.IndexFunc(of, func(b byte) bool { return b != of[0] })
			if n < 0 {
				n = len(of)
			}
			text += fmt.Sprintf(" %d*%d", of[0], n)
			of = of[n:]
		}
		if got := fmt.Sprint(waves.List); got != test.waves || text != " "+test.ofDevices {
			t.Errorf("%v of %d devices and %d racks: %s in %s, want %s in %s", test.shares, test.devices, test.racks, text, got, test.ofDevices, test.waves)
		}
	}
}

// The waves of 100,000 entities fit into one value, however the entities are spread, and are read
// back as they were.
func TestWaves_OfManyEntities(t *testing.T) {
	for _, waves := range []int{5, spec.MaxWaves} {
		numbers, random := make([]byte, 100_000), rand.New(rand.NewPCG(1, 2))
		for i := range numbers {
			numbers[i] = byte(1 + random.IntN(waves))
		}
		w := workflow.Waves{}
		for range waves {
			w.List = append(w.List, workflow.Wave{Name: string(slices.Repeat([]byte("x"), spec.MaxWaveName)), Entities: 1})
		}
		raw, err := w.Encode(numbers)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Numbers()
		if err != nil || !slices.Equal(got, numbers) {
			t.Fatalf("%d waves are read back as others, %v", waves, err)
		}
		t.Logf("%d waves: %d bytes", waves, len(raw))
		if len(raw) > workflow.MaxValueBytes/4 {
			t.Errorf("%d waves take %d bytes", waves, len(raw))
		}
	}
}
